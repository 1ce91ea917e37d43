import type { Rejection } from '#shared/kernel/errors.ts';
import type { BodyBudget } from './body-budget.ts';
import { type Announced, tooLarge } from './body-head.ts';
import type { Deadlines } from './deadlines.ts';
import type { Exchange } from './exchange.ts';

/** `gone`: the client left before the body was whole; nobody is there to be answered. */
export type BodyRead = Buffer | Rejection | 'gone';

export interface ReadLimits {
  maxBytes: number;
  budget: BodyBudget;
  /** Measures from the end of the head to the end of the body. */
  deadlines: Deadlines;
}

/**
 * Reads a body of at most `maxBytes`, and stops reading at the cap, the time limit or the process's budget. What it
 * takes of the budget is noted in `exchange.reserved`; the caller gives it back when the request has been answered,
 * because the parsed body lives until then.
 */
export function readBody(
  exchange: Exchange,
  announced: Announced & { body: true },
  limits: ReadLimits,
): Promise<BodyRead> {
  const { request, response } = exchange;
  if (announced.length !== undefined && !reserve(announced.length, limits, exchange)) return Promise.resolve(busy());
  if (request.headers.expect?.toLowerCase() === '100-continue') response.writeContinue();
  return new Promise((settle) => {
    const chunks: Buffer[] = [];
    let total = 0;
    const deadline = limits.deadlines.add(() => breakOff({ rejected: 'REQUEST_TIMEOUT' }));

    function onData(chunk: Buffer): void {
      total += chunk.length;
      if (announced.typeMissing) finish({ rejected: 'UNSUPPORTED_MEDIA_TYPE' });
      else if (total > limits.maxBytes) finish(tooLarge(limits.maxBytes));
      else if (announced.length === undefined && !reserve(chunk.length, limits, exchange)) finish(busy());
      else chunks.push(chunk);
    }
    function onEnd(): void {
      finish(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, total));
    }
    function onClose(): void {
      finish('gone');
    }
    function breakOff(why: Rejection): void {
      exchange.broken = true;
      finish(why);
    }
    function finish(read: BodyRead): void {
      limits.deadlines.remove(deadline);
      exchange.interrupt = undefined;
      request.off('data', onData).off('end', onEnd).off('close', onClose);
      if (!request.readableEnded) request.pause();
      settle(read);
    }

    exchange.interrupt = breakOff;
    request.on('data', onData).on('end', onEnd).on('close', onClose);
    if (request.destroyed && !request.readableEnded) finish('gone');
  });
}

function reserve(bytes: number, limits: ReadLimits, exchange: Exchange): boolean {
  if (!limits.budget.take(bytes)) return false;
  exchange.reserved += bytes;
  return true;
}

function busy(): Rejection {
  return { rejected: 'UNAVAILABLE', message: 'Too many request bodies are being read now', retryAfter: 1 };
}
