"""One run, from its folder: sample, admit, grade, prepare, K updates, evaluate, checkpoint. Read it top to bottom.

The loop knows the seven slots and no trick's name. Step s samples with the policy after s rollouts; an evaluation
on step s precedes its updates, and the last one stands on step `steps`. Every random number follows from
(seed, purpose, step, prompt, sample), so a resumed run repeats an undisturbed one bit for bit. Leaves out: who
runs it and when (`harness.sweep.launch`).

    python -m harness run runs/<id>
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from harness import store, tasks
from harness.config import RunConfig
from harness.core import checkpoint, engines, evaluate, first_eval, first_rollout, metrics, parallel, tokens
from harness.core.collect import Collected, collect
from harness.core.learner import Learner
from harness.core.memory import keep_freed_memory
from harness.core.parallel import is_chief
from harness.core.record import Recorder
from harness.core.shapes import Prompts, Rollout
from harness.core.step import Batch, Samples, bind_slots, prepare


def train(run: store.Run, stop: Callable[[], bool] = lambda: False) -> None:
    """Trains the run to its end, or to the next step boundary after `stop()` turns true, and leaves a checkpoint.

    Raises what the run raises; a loss or gradient that is not finite is a result, recorded as `diverged`.
    """
    began = time.perf_counter()
    config = run.config()
    identity, runtime = config.identity, config.runtime
    keep_freed_memory()
    torch.set_num_threads(runtime.threads)
    torch.manual_seed(config.seed)

    slots = bind_slots(identity.tricks)
    learner = Learner(config, slots)
    engine = engines.load(config)
    task = tasks.load(identity.data)
    benchmarks = evaluate.load(identity.evaluate, learner.policy)

    attempt = run.next_attempt()
    first = checkpoint.restore(run, learner)
    chief = is_chief()
    record = Recorder(run, attempt, first, chief)
    record.seconds["load"] = time.perf_counter() - began

    def note(state: store.State, step: int, **more: Any) -> None:
        if chief:
            run.write_status(state, step=step, steps=identity.train.steps, attempt=attempt, **record.summary(), **more)

    if chief:
        made = store.provenance() | {"attempt": attempt, "dropped": evaluate.dropped(task, benchmarks)}
        store.write_atomic(run.path / "provenance.json", store.dump_json(made))
    note("running", first)

    def generate(step: int, problems: list[int], noise: "np.ndarray") -> tuple[Rollout, evaluate.Graded]:
        chosen = [task.problems[i] for i in problems]
        with record.timed("generate"):
            prompts = Prompts.of(learner.policy.encode([problem.prompt for problem in chosen]))
            make = partial(engine.generate, prompts, noise, _sampling_params(config))
            if step:
                rollout = make()
            else:
                rollout, spared = first_rollout.rollout(run, config, problems, noise, make)
                record.spared["generate"] = record.spared.get("generate", 0.0) + spared
        with record.timed("grade"):
            return rollout, evaluate.grade(rollout, learner.policy, task, [problem.answer for problem in chosen])

    with record:
        for step in range(first, identity.train.steps + 1):
            with record.timed("checkpoint"):
                stopping = stop()
                if step > first and (stopping or step % runtime.checkpoint_every == 0):
                    checkpoint.save(run, learner, step, runtime.keep_checkpoints)
                if stopping:
                    record.close()
                    note("stopped", step)
                    return
            with record.timed("engine"):
                row: metrics.Metrics = {**engine.sync(learner.policy)}
            last = step == identity.train.steps
            if last or step % identity.evaluate.every == 0:
                with record.timed("evaluate"):
                    found = first_eval.evaluation(run, config, benchmarks, engine, learner.policy, step)
                    record.spared["evaluate"] = found.spared
                row |= found.metrics
                for kind, lines in found.lines.items():
                    for line in lines:
                        record.write(kind, line)
            if last:
                record.step(step, row)
                break

            failed = tasks.verifier_errors()
            collected = collect(
                config, len(task.problems), slots["admit"], learner.history, step, partial(generate, step)
            )
            row["grading/verifier_errors"] = sum(parallel.gathered(tasks.verifier_errors() - failed))
            with record.timed("prepare"):
                collected = replace(collected, rollout=_scored(collected.rollout, learner))
                row |= metrics.rollout_metrics(collected)
                batch = _prepare(collected, learner)
                row |= metrics.batch_metrics(batch)
            with record.timed("update"):
                ratios = metrics.RatioMetrics(slots["surrogate"])
                norms = learner.update(batch, step, ratios)
                by_ratio, clipped = ratios.result()
                row |= by_ratio | metrics.update_metrics(norms.policy, norms.critic, norms.critic_loss)
            record.step(step, row)
            record.write("counts", {"step": step} | tokens.counts(collected, batch.rows, clipped, learner.policy.words))
            if step % identity.evaluate.every == 0 and collected.problems:
                shown = tokens.shown(collected, batch.rows, clipped, learner.policy.words, runtime.sample_rows)
                prompt = task.problems[tokens.prompt(collected)].prompt
                record.write("samples", {"step": step, "prompt": prompt, "samples": shown})
            note("running", step + 1, accuracy=row["train/accuracy"])
            if not norms.finite:
                record.close()
                note("diverged", step + 1, error="a gradient is not finite")
                return

        record.close()
        note("done", identity.train.steps, accuracy=row["eval/accuracy"])


def _sampling_params(config: RunConfig) -> engines.SamplingParams:
    sampling = config.identity.sampling
    replay = sampling.logprob_support == "replay"
    return engines.SamplingParams(sampling.max_new_tokens, sampling.temperature, sampling.top_p, sampling.top_k, replay)


def _scored(rollout: Rollout, learner: Learner) -> Rollout:
    """With the trainer's own log-probabilities where they are asked for, or where the engine told no entropy."""
    if learner.config.identity.sampling.old_logp != "recompute" and rollout.entropy is not None:
        return rollout
    logp, entropy = (x.view(rollout.logp.shape) for x in learner.logprobs(rollout.rows()))
    return replace(rollout, trainer_logp=logp, entropy=entropy)


def _prepare(collected: Collected, learner: Learner) -> Batch:
    """The admitted samples through the slots, with the reference's and the critic's word on them; notes the history."""
    history = learner.history
    history.visit(collected.problems, collected.rewards)
    if collected.problems:
        history.entropies.append(metrics.mean_entropy(collected.rollout))
    chosen = collected.admitted.nonzero()[:, 0]
    samples = Samples(
        collected.rollout.take(chosen),
        collected.rewards[chosen],
        collected.formatted[chosen],
        learner.config.identity.sampling.max_new_tokens,
        history.moments,
        torch.tensor(history.entropies, dtype=torch.float64),
        old=learner.config.identity.sampling.old_logp,
    )
    rows = samples.rollout.rows()
    samples = replace(samples, ref_logp=learner.reference_logprobs(rows), values=learner.values(rows))
    batch = prepare(samples, learner.slots)
    history.add_rewards(batch.rewards[batch.counted])
    return batch
