import type { Head } from '#api/route.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { Exchange } from './exchange.ts';

/** A body of `length` bytes (undefined when it comes in chunks). */
interface Announced {
  kind: 'announced';
  length: number | undefined;
  typeMissing: boolean;
}

/** What the head announces; `none`: no body at all. */
type BodyHead = { kind: 'none' } | Announced | Refused;

interface Refused {
  kind: 'refused';
  rejection: Rejection;
}

const NO_BODY: BodyHead = { kind: 'none' };
const JSON_TYPE = /^application\/json[ \t]*(?:;|$)/i;
const CHARSET = /;[ \t]*charset[ \t]*=[ \t]*"?([^\s;"]*)"?/i;

/**
 * Judges media type, encoding and announced size, in this order, before a byte of the body is read. A request
 * without a body has no type to judge. A chunked body without any Content-Type is let through with `typeMissing`:
 * only its first byte tells whether there is something to have a type.
 */
export function judgeBodyHead(head: Head, maxBytes: number): BodyHead {
  const { headers, repeated } = head;
  const chunked = headers['transfer-encoding'] !== undefined;
  const length = chunked ? undefined : Number(headers['content-length'] ?? 0);
  if (length === 0) return NO_BODY;

  const type = headers['content-type'];
  const typeMissing = type === undefined && chunked;
  if (!typeMissing && (type === undefined || repeated.has('content-type') || !isJson(type))) {
    return refused({ rejected: 'UNSUPPORTED_MEDIA_TYPE' });
  }
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding.trim().toLowerCase() !== 'identity') {
    return refused({ rejected: 'UNSUPPORTED_ENCODING' });
  }
  // An unreadable length cannot get here (Node's parser refuses it), but NaN must not pass as small.
  if (length !== undefined && !(length <= maxBytes)) return refused(tooLarge(maxBytes));
  return { kind: 'announced', length, typeMissing };
}

function refused(rejection: Rejection): Refused {
  return { kind: 'refused', rejection };
}

function tooLarge(maxBytes: number): Rejection {
  return { rejected: 'PAYLOAD_TOO_LARGE', message: `The body is larger than ${maxBytes} bytes` };
}

/** RFC 8259 knows one charset; a body in another would be decoded as what it is not. */
function isJson(type: string): boolean {
  if (!JSON_TYPE.test(type)) return false;
  const charset = CHARSET.exec(type)?.[1]?.toLowerCase();
  return charset === undefined || charset === 'utf-8' || charset === 'utf8';
}

/** `gone`: the client left before the body was whole; nobody is there to be answered. */
export type BodyRead = { kind: 'read'; bytes: Buffer } | Refused | { kind: 'gone' };

interface ReadLimits {
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
export function readBody(exchange: Exchange, announced: Announced, limits: ReadLimits): Promise<BodyRead> {
  const { request, response } = exchange;
  if (announced.length !== undefined && !reserve(announced.length, limits, exchange)) {
    return Promise.resolve(refused(busy()));
  }
  if (request.headers.expect?.toLowerCase() === '100-continue') response.writeContinue();
  return new Promise((settle) => {
    const chunks: Buffer[] = [];
    let total = 0;
    const deadline = limits.deadlines.add(() => breakOff({ rejected: 'REQUEST_TIMEOUT' }));

    function onData(chunk: Buffer): void {
      total += chunk.length;
      if (announced.typeMissing) finish(refused({ rejected: 'UNSUPPORTED_MEDIA_TYPE' }));
      else if (total > limits.maxBytes) finish(refused(tooLarge(limits.maxBytes)));
      else if (announced.length === undefined && !reserve(chunk.length, limits, exchange)) finish(refused(busy()));
      else chunks.push(chunk);
    }
    function onEnd(): void {
      const bytes = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, total);
      finish({ kind: 'read', bytes });
    }
    function onClose(): void {
      finish({ kind: 'gone' });
    }
    function breakOff(why: Rejection): void {
      exchange.broken = true;
      finish(refused(why));
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
    if (request.destroyed && !request.readableEnded) finish({ kind: 'gone' });
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

/**
 * Bytes of request bodies that the process holds at once, read or announced. Without it a few hundred large
 * starts sent together would fill the heap although each is within its own cap.
 */
interface BodyBudget {
  /** False when it would overrun; then nothing is taken. */
  take(bytes: number): boolean;
  give(bytes: number): void;
  taken(): number;
}

export function openBodyBudget(limit: number): BodyBudget {
  let taken = 0;
  return {
    take(bytes) {
      if (taken + bytes > limit) return false;
      taken += bytes;
      return true;
    },
    give(bytes) {
      taken -= bytes;
    },
    taken: () => taken,
  };
}

/** One limit of time for many short things: cheaper than a timer each, because nearly all end in time. */
interface Deadlines {
  /** Calls `late` once `limitMs` has passed, at most CHECK_MS too late, unless removed before. */
  add(late: () => void): Deadline;
  remove(deadline: Deadline): void;
}

interface Deadline {
  at: number;
  late: () => void;
}

/** As often as Node looks after its own limits here. */
const CHECK_MS = 500;

export function openDeadlines(limitMs: number): Deadlines {
  // Insertion order is order of time, so a check stops at the first that still has some left.
  const waiting = new Set<Deadline>();
  let timer: NodeJS.Timeout | undefined;

  function check(): void {
    const now = performance.now();
    for (const deadline of waiting) {
      if (deadline.at > now) return;
      waiting.delete(deadline);
      deadline.late();
    }
    clearInterval(timer);
    timer = undefined;
  }

  return {
    add(late) {
      const deadline = { at: performance.now() + limitMs, late };
      waiting.add(deadline);
      timer ??= setInterval(check, Math.min(CHECK_MS, limitMs / 8)).unref();
      return deadline;
    },
    remove(deadline) {
      waiting.delete(deadline);
    },
  };
}
