import type { Head } from '#api/route.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { Exchange } from './exchange.ts';
import { type Refused, refused } from './reply.ts';

/** Reads the bodies of all requests of a process, within limits that they share. */
interface BodyReader {
  /**
   * Checks what the head announces, then reads at most `maxBytes`. Returns no bytes if the request has no body, and `gone` if the
   * client left before its body was whole.
   */
  read(exchange: Exchange, head: Head, maxBytes: number): Promise<BodyRead>;
  /** Releases what an exchange holds of the budget. Called once it has been answered: its parsed body lives until then. */
  release(exchange: Exchange): void;
}

type BodyRead = { kind: 'read'; bytes: Buffer } | Refused | { kind: 'gone' };

const EMPTY = Buffer.alloc(0);

export function openBodyReader(limits: { bodyBudgetBytes: number; bodyTimeoutMs: number }): BodyReader {
  const budget = openBodyBudget(limits.bodyBudgetBytes);
  const deadlines = openDeadlines(limits.bodyTimeoutMs);
  return {
    async read(exchange, head, maxBytes) {
      const announced = judgeBodyHead(head, maxBytes);
      switch (announced.kind) {
        case 'refused':
          return announced;
        case 'none':
          return { kind: 'read', bytes: EMPTY };
        case 'announced':
          return readBody(exchange, announced, { maxBytes, budget, deadlines });
      }
    },
    release: budget.release,
  };
}

/** A body of `length` bytes (undefined when it comes in chunks). */
interface Announced {
  kind: 'announced';
  length: number | undefined;
  typeMissing: boolean;
}

const JSON_TYPE = /^application\/json[ \t]*(?:;|$)/i;
const CHARSET = /;[ \t]*charset[ \t]*=[ \t]*"?([^\s;"]*)"?/i;

/**
 * Judges media type, encoding and announced size, in this order, before a byte of the body is read. A request
 * without a body has no type to judge. A chunked body without any Content-Type is let through with `typeMissing`:
 * only its first byte tells whether there is something to have a type.
 */
function judgeBodyHead(head: Head, maxBytes: number): Announced | { kind: 'none' } | Refused {
  const { headers, repeated } = head;
  const chunked = headers['transfer-encoding'] !== undefined;
  const length = chunked ? undefined : Number(headers['content-length'] ?? 0);
  if (length === 0) return { kind: 'none' };

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

/** RFC 8259 knows one charset; a body in another would be decoded as what it is not. */
function isJson(type: string): boolean {
  if (!JSON_TYPE.test(type)) return false;
  const charset = CHARSET.exec(type)?.[1]?.toLowerCase();
  return charset === undefined || charset === 'utf-8' || charset === 'utf8';
}

function tooLarge(maxBytes: number): Rejection {
  return { rejected: 'PAYLOAD_TOO_LARGE', message: `The body is larger than ${maxBytes} bytes` };
}

interface ReadLimits {
  maxBytes: number;
  budget: BodyBudget;
  /** Measures from the end of the head to the end of the body. */
  deadlines: Deadlines;
}

/** Reads a body that was announced, and stops reading at the cap, the time limit or the process's budget. */
function readBody(
  exchange: Exchange,
  announced: Announced,
  { maxBytes, budget, deadlines }: ReadLimits,
): Promise<BodyRead> {
  const { request, response } = exchange;
  if (announced.length !== undefined && !budget.reserve(exchange, announced.length)) {
    return Promise.resolve(refused(busy()));
  }
  if (request.headers.expect?.toLowerCase() === '100-continue') response.writeContinue();
  return new Promise((settle) => {
    const chunks: Buffer[] = [];
    let total = 0;
    const deadline = deadlines.add(() => breakOff({ rejected: 'REQUEST_TIMEOUT' }));

    function onData(chunk: Buffer): void {
      total += chunk.length;
      if (announced.typeMissing) finish(refused({ rejected: 'UNSUPPORTED_MEDIA_TYPE' }));
      else if (total > maxBytes) finish(refused(tooLarge(maxBytes)));
      else if (announced.length === undefined && !budget.reserve(exchange, chunk.length)) finish(refused(busy()));
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
      deadlines.remove(deadline);
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

function busy(): Rejection {
  return { rejected: 'UNAVAILABLE', message: 'Too many request bodies are being read now', retryAfter: 1 };
}

/**
 * Bytes of request bodies that the process holds at once, read or announced. Without it a few hundred large
 * starts sent together would fill the heap although each is within its own cap.
 */
interface BodyBudget {
  /** Adds `bytes` to what the exchange holds. False if the budget would overrun; then nothing is added. */
  reserve(exchange: Exchange, bytes: number): boolean;
  release(exchange: Exchange): void;
}

function openBodyBudget(limit: number): BodyBudget {
  let taken = 0;
  return {
    reserve(exchange, bytes) {
      if (taken + bytes > limit) return false;
      taken += bytes;
      exchange.reserved += bytes;
      return true;
    },
    release(exchange) {
      taken -= exchange.reserved;
    },
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

function openDeadlines(limitMs: number): Deadlines {
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
