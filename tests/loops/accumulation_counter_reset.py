"""A counter that is compared and reset instead of a modulo."""

import torch


def distill(student, teacher, loader, window=6, temperature=2.0):
    teacher.eval()
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-4)
    kl = torch.nn.KLDivLoss(reduction="batchmean", log_target=True)
    waiting = 0
    remaining = len(loader)
    for images, _ in loader:
        remaining -= 1
        with torch.no_grad():
            soft = torch.log_softmax(teacher(images) / temperature, dim=-1)
        guess = torch.log_softmax(student(images) / temperature, dim=-1)
        loss = kl(guess, soft) / window
        loss.backward()
        waiting += 1
        if waiting == window or remaining == 0:
            torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            waiting = 0
    return student
