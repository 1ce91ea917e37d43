import { setTimeout as delay } from 'node:timers/promises';
import type { Gateway } from './gateway.ts';
import { inParallel } from './in-parallel.ts';
import { type Inbox, readPage } from './inbox.ts';

/** Inboxes that are asked in one round, and how many at once. */
const ROUND = 48;
const SOCKETS = 8;
const LEAST_REST_MS = 150;

/**
 * Waits until each owner has been told, asking only for those who are outstanding, in turn; gives up when nothing has come
 * for so long (ms; `firstMs` for the first one). Gives those who have not been told.
 */
export async function awaitNotices(
  gateway: Gateway,
  inboxes: readonly Inbox[],
  options: { firstMs: number; nextMs: number; arrived: () => void },
): Promise<Inbox[]> {
  let outstanding = [...inboxes];
  let patienceMs = options.firstMs;
  let lastAt = performance.now();
  while (outstanding.length > 0 && performance.now() - lastAt < patienceMs) {
    const began = performance.now();
    const missing: Inbox[] = [];
    const asked = outstanding.slice(0, ROUND);
    await inParallel(asked, SOCKETS, async (inbox) => {
      if (!(await hasCome(gateway, inbox))) return void missing.push(inbox);
      options.arrived();
      patienceMs = options.nextMs;
      lastAt = performance.now();
    });
    outstanding = [...outstanding.slice(ROUND), ...missing];
    // Waiting must not slow down what is waited for: as long a rest as the asking took.
    if (missing.length > 0) await delay(Math.max(LEAST_REST_MS, performance.now() - began));
  }
  return outstanding;
}

/** What has just come stands on the first page. */
async function hasCome(gateway: Gateway, inbox: Inbox): Promise<boolean> {
  const { items } = await readPage(gateway, inbox, 1);
  return items.some((row) => row.entityId === inbox.attemptId);
}
