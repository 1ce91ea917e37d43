import { setTimeout as delay } from 'node:timers/promises';
import type { HttpReply } from './http-call.ts';

/** Between two askings: those who ask at once keep a busy door busy. */
const PACE_MS = 50;

/** Runs `work` for 0…count−1, at most `width` of them at once, and gives the results in order. */
export async function crowd<T>(count: number, width: number, work: (index: number) => Promise<T>): Promise<T[]> {
  const results = new Array<T>(count);
  let next = 0;
  async function lane(): Promise<void> {
    for (let index = next++; index < count; index = next++) results[index] = await work(index);
  }
  await Promise.all(Array.from({ length: Math.min(width, count) }, lane));
  return results;
}

/** How often each word came: `{ '201': 1, '200': 199 }`. */
export function tally(words: Iterable<string | number>): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
  return counts;
}

/** Asks again while the door is too busy, as its 503 says: on a loaded machine that is no finding. */
export async function insist<Data>(ask: () => Promise<HttpReply<Data>>): Promise<HttpReply<Data>> {
  for (;;) {
    const reply = await ask();
    if (reply.status !== 503) return reply;
    await delay(PACE_MS);
  }
}
