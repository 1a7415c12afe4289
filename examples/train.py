"""A toy training loop that fails on purpose: an exception, then a segmentation fault, then it succeeds."""

import os
import signal
import time

import torch
import torch.distributed as dist

STEPS = 12


def train_step(model: torch.nn.Module, step: int, rank: int, attempt: int) -> torch.Tensor:
    loss = model(torch.randn(16, 8)).square().mean()
    if attempt == 0 and rank == 1 and step == 5:
        raise FloatingPointError(f"loss is nan at step {step}")
    if attempt == 1 and rank == 2 and step == 7:
        os.kill(os.getpid(), signal.SIGSEGV)
    return loss


def main() -> None:
    rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    # All attempts share one store: without a prefix of its own an attempt can meet the keys of the one before and hang.
    store, _, _ = next(dist.rendezvous("env://"))
    store = dist.PrefixStore(f"attempt-{attempt}", store)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        train_step(model, step, rank, attempt).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        time.sleep(0.1)
    if rank == 0:
        print(f"trained {STEPS} steps in attempt {attempt}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
