"""One run, from its folder: sample, admit, grade, prepare, K updates, evaluate, checkpoint. Read it top to bottom.

The loop knows the seven slots and no trick's name. Step s samples with the policy after s rollouts; an evaluation
on step s precedes its updates, and the last one stands on step `steps`. Every random number follows from
(seed, purpose, step, prompt, sample), so a resumed run repeats an undisturbed one bit for bit. Leaves out: who
runs it and when (`harness.sweep.launch`).

    python -m harness run runs/<id>
"""

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import torch

from harness import store, tasks
from harness.config import RunConfig
from harness.core import checkpoint, engines, evaluate, metrics, seeds
from harness.core.memory import keep_freed_memory
from harness.core.optimizer import Optimizer
from harness.core.policy import Policy
from harness.core.record import Recorder
from harness.core.shapes import Prompts
from harness.core.step import Batch, accumulate, bind_slots, prepare


def train(run: store.Run, stop: Callable[[], bool] = lambda: False) -> None:
    """Trains the run to its end, or to the next step boundary after `stop()` turns true, and leaves a checkpoint.

    Raises what the run raises; a loss or gradient that is not finite is a result, recorded as `diverged`.
    """
    config = run.config()
    identity, runtime = config.identity, config.runtime
    keep_freed_memory()
    torch.set_num_threads(runtime.threads)
    torch.manual_seed(config.seed)

    policy = Policy.load(identity.model)
    optimizer = Optimizer(policy, identity.train)
    engine = engines.load(identity.sampling.engine)
    slots = bind_slots(identity.tricks)
    task = tasks.load(identity.data)
    benchmarks = evaluate.load(identity.evaluate, policy)

    attempt = run.next_attempt()
    first = checkpoint.restore(run, policy, optimizer)
    store.write_atomic(run.path / "provenance.json", store.dump_json(store.provenance() | {"attempt": attempt}))
    record = Recorder(run, attempt)
    progress = {"steps": identity.train.steps, "attempt": attempt}
    run.write_status("running", step=first, **progress)

    for step in range(first, identity.train.steps + 1):
        with record.timed("checkpoint"):
            stopping = stop()
            if step > first and (stopping or step % runtime.checkpoint_every == 0):
                checkpoint.save(run, policy, optimizer, step, runtime.keep_checkpoints)
            if stopping:
                record.close()
                run.write_status("stopped", step=step, **progress)
                return
        engine.sync(policy)
        row: metrics.Metrics = {}
        last = step == identity.train.steps
        if last or step % identity.evaluate.every == 0:
            with record.timed("evaluate"):
                scores, details = evaluate.evaluate(benchmarks, engine, policy, identity.evaluate, config.seed, step)
                row |= scores
            for detail in details:
                record.write("evals", detail)
        if last:
            record.step(step, row)
            break

        with record.timed("generate"):
            chosen = _draw(config, len(task.problems), step)
            prompts = Prompts.of(policy.encode([task.problems[i].prompt for i in chosen]))
            params = engines.SamplingParams(
                identity.sampling.max_new_tokens,
                identity.sampling.temperature,
                identity.sampling.top_p,
                identity.sampling.top_k,
            )
            rollout = engine.generate(prompts, _noise(config, step, chosen), params)
        with record.timed("grade"):
            rewards, texts = evaluate.grade(rollout, policy, task, [task.problems[i].answer for i in chosen])
        with record.timed("prepare"):
            row |= metrics.rollout_metrics(rollout, rewards)
            batch = prepare(rollout, rewards, slots)
            row |= metrics.batch_metrics(batch)
        with record.timed("update"):
            ratios = metrics.RatioMetrics(slots["surrogate"])
            norms = update(config, policy, optimizer, batch, slots, step, ratios)
            row |= ratios.result() | {"grad/norm": float(np.mean(norms)) if norms else None}
            row |= {"grad/norm_max": max(norms, default=None), "count/updates": len(norms)}
        record.step(step, row)
        if step % identity.evaluate.every == 0:
            rows = zip(texts, rewards.flatten().tolist(), strict=True)
            shown = [{"text": text, "reward": reward} for text, reward in rows][: runtime.sample_rows]
            record.write("samples", {"step": step, "prompt": task.problems[chosen[0]].prompt, "samples": shown})
        run.write_status("running", step=step + 1, accuracy=row["train/accuracy"], **progress)
        if norms and not math.isfinite(norms[-1]):
            record.close()
            run.write_status("diverged", step=step + 1, error="a gradient is not finite", **progress)
            return

    record.close()
    run.write_status("done", step=identity.train.steps, accuracy=row["eval/accuracy"], **progress)


def update(
    config: RunConfig,
    policy: Policy,
    optimizer: Optimizer,
    batch: Batch,
    slots: dict,
    step: int,
    ratios: metrics.RatioMetrics,
) -> list[float]:
    """K optimizer updates on one batch; the pre-clip gradient norm of each. Stops at one that is not finite."""
    settings, sampling = config.identity.train, config.identity.sampling
    parts = settings.updates_per_rollout // settings.epochs
    norms: list[float] = []
    num_prompts = len(batch.rows.lengths) // batch.group_size
    for epoch in range(settings.epochs):
        for prompts in seeds.minibatches(config.seed, step, epoch, num_prompts, parts):
            index = batch.of_prompts(torch.from_numpy(prompts))
            if not batch.kept[index].any():
                continue  # all of its samples are filtered out: there is no gradient to follow
            for part in accumulate(
                policy, batch, index, slots, sampling.temperature, float(parts), config.runtime.micro_batch_rows
            ):
                ratios.add(part)
            norms.append(optimizer.step(step))
            if not math.isfinite(norms[-1]):
                return norms
    return norms


def _draw(config: RunConfig, size: int, step: int) -> list[int]:
    count = config.identity.sampling.prompts_per_step
    return seeds.prompt_order(config.seed, size, step * count, count)


def _noise(config: RunConfig, step: int, chosen: list[int]) -> np.ndarray:
    """seeds[P,G]; the same for every arm of one seed. A prompt drawn twice in a batch goes on counting samples."""
    size, seen = config.identity.sampling.group_size, Counter[int]()
    noise = []
    for i in chosen:
        noise.append([seeds.derive(config.seed, "rollout", step, i, seen[i] * size + g) for g in range(size)])
        seen[i] += 1
    return np.array(noise)
