"""Accumulation with the usual `(i + 1) % N`, clip and scheduler at the boundary."""

import torch


def train(args, model, train_dataloader, criterion):
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.max_steps)
    global_step = 0
    tr_loss = 0.0
    model.zero_grad()
    for _ in range(args.num_train_epochs):
        for step, batch in enumerate(train_dataloader):
            model.train()
            batch = tuple(t.to(args.device) for t in batch)
            scores = model(input_ids=batch[0], attention_mask=batch[1])
            loss = criterion(scores, batch[2])
            if args.gradient_accumulation_steps > 1:
                loss = loss / args.gradient_accumulation_steps
            loss.backward()
            tr_loss += loss.item()

            last = step + 1 == len(train_dataloader)
            if (step + 1) % args.gradient_accumulation_steps == 0 or last:
                torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
                optimizer.step()
                scheduler.step()
                model.zero_grad()
                global_step += 1
                if args.logging_steps > 0 and global_step % args.logging_steps == 0:
                    print(global_step, tr_loss / global_step, scheduler.get_last_lr()[0])
    return global_step, tr_loss / global_step
