import { setTimeout as delay } from 'node:timers/promises';
import type { HttpReply } from './http-call.ts';

/** Wait before a refused call is repeated. Immediate repeats would keep a busy front door busy. */
const PACE_MS = 50;

/** Runs `work` for 0…count−1, at most `width` at the same time. Returns the results in order. */
export async function crowd<T>(count: number, width: number, work: (index: number) => Promise<T>): Promise<T[]> {
  const results = new Array<T>(count);
  let next = 0;
  async function lane(): Promise<void> {
    for (let index = next++; index < count; index = next++) results[index] = await work(index);
  }
  await Promise.all(Array.from({ length: Math.min(width, count) }, lane));
  return results;
}

/** Returns how often each word occurs: `{ '201': 1, '200': 199 }`. */
export function tally(words: Iterable<string | number>): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
  return counts;
}

/** Repeats a call while the front door answers 503. On a loaded machine a front door may be busy. */
export async function retryOn503<Data>(call: () => Promise<HttpReply<Data>>): Promise<HttpReply<Data>> {
  for (;;) {
    const reply = await call();
    if (reply.status !== 503) return reply;
    await delay(PACE_MS);
  }
}
