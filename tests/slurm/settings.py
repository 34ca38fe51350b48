"""The texts of slurm.conf and gres.conf for a cluster on loopback, and free ports for it.

Nodes claim more CPUs and memory than the machine has, and GPUs that are null devices. Not here: accounting, cgroups,
CPU binding, and `preempt_send_user_signal`: a real cluster need not have it, so tests must not lean on it.
"""

import random
import socket
import time
from pathlib import Path

CONF = """\
ClusterName=throwaway
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={sockets}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={sockets}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
ReturnToService=2
SlurmdTimeout=15
KillWait=5
MinJobAge=300
FirstJobId={first_job}
MaxArraySize=20001
GresTypes=gpu
DefMemPerCPU={mem_per_cpu}
PropagateResourceLimits=NONE
NodeName=n[0-{last}] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first_port}-{last_port}] CPUs={cpus} \
RealMemory={mem} {gres}
PartitionName=low  Nodes=ALL DefaultTime=60 PriorityTier=1  PreemptMode=REQUEUE GraceTime=10 Default=YES
PartitionName=low0 Nodes=ALL DefaultTime=60 PriorityTier=1  PreemptMode=REQUEUE GraceTime=0
PartitionName=high Nodes=ALL DefaultTime=60 PriorityTier=10 PreemptMode=OFF
"""


def slurm_conf(folder: Path, sockets: Path, nodes: int, cpus: int, mem: int, gpus: int, first_port: int) -> str:
    """The controller listens on the first port, the nodes on the following ones."""
    return CONF.format(
        host=socket.gethostname().split(".")[0],
        folder=folder,
        sockets=sockets,
        port=first_port,
        first_port=first_port + 1,
        last_port=first_port + nodes,
        last=nodes - 1,
        cpus=cpus,
        mem=mem,
        mem_per_cpu=mem // cpus,
        gres=f"Gres=gpu:fake:{gpus}" if gpus else "",
        # a new cluster that counts from 1 again would find files that an earlier one's jobs left under the same id
        first_job=int(time.time()) % 60_000_000 + 1,
    )


def gres_conf(devices: Path, gpus: int) -> str:
    return f"AutoDetect=off\nName=gpu Type=fake File={devices}/gpu[0-{gpus - 1}]\n" if gpus else "AutoDetect=off\n"


def free_ports(count: int) -> int:
    """The first of `count` ports in a row that nobody listens on, below those that clients are given."""
    for _ in range(100):
        first = random.randrange(20_000, 32_000 - count)
        if all(_free(port) for port in range(first, first + count)):
            return first
    raise OSError(f"no {count} free ports in a row")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
