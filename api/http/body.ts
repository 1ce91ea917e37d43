import type { Head } from '#api/route.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { Exchange } from './exchange.ts';
import { isJson } from './media-type.ts';
import { type Refused, refused } from './reply.ts';

/** Reads the request bodies of a process within a shared budget of bytes. */
interface BodyReader {
  /**
   * Checks the body that the head announces, then reads at most `maxBytes`. Returns no bytes if the request has no body, and
   * `gone` if the client left before its body was complete.
   */
  read(exchange: Exchange, head: Head, maxBytes: number): Promise<BodyRead>;
  /** Releases the bytes that an exchange holds. Called after its reply, because its parsed body is in memory until then. */
  release(exchange: Exchange): void;
}

type BodyRead = { kind: 'read'; bytes: Buffer } | Refused | { kind: 'gone' };

const EMPTY = Buffer.alloc(0);

/** Opens the reader of request bodies. All bodies share `bodyBudgetBytes`, and each must arrive within `bodyTimeoutMs`. */
export function openBodyReader(limits: { bodyBudgetBytes: number; bodyTimeoutMs: number }): BodyReader {
  const budget = openBodyBudget(limits.bodyBudgetBytes);
  const deadlines = openDeadlines(limits.bodyTimeoutMs);
  return {
    async read(exchange, head, maxBytes) {
      const announced = checkBodyHead(head, maxBytes);
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

/** An announced body of `length` bytes; undefined for a chunked body. */
interface Announced {
  kind: 'announced';
  length: number | undefined;
  typeMissing: boolean;
}

/**
 * Checks media type, encoding and announced size, in this order, before a byte of the body is read. A request without
 * a body needs no type. A chunked body without a Content-Type passes with `typeMissing`, because it may still be empty; its
 * first byte then causes the refusal.
 */
function checkBodyHead(head: Head, maxBytes: number): Announced | { kind: 'none' } | Refused {
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
  // Node's parser refuses an unreadable length, but even then NaN must not pass as a small one.
  if (length !== undefined && !(length <= maxBytes)) return refused(tooLarge(maxBytes));
  return { kind: 'announced', length, typeMissing };
}

function tooLarge(maxBytes: number): Rejection {
  return { rejected: 'PAYLOAD_TOO_LARGE', message: `The body is larger than ${maxBytes} bytes` };
}

interface ReadLimits {
  maxBytes: number;
  budget: BodyBudget;
  /** Limit of the time from the end of the head to the end of the body. */
  deadlines: Deadlines;
}

/** Reads an announced body. Stops reading at the size limit, the time limit or the process's budget. */
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
  return { rejected: 'UNAVAILABLE', message: 'Too many request bodies are being read; retry later', retryAfter: 1 };
}

/**
 * Limits the bytes of request bodies that the process holds at once, read or announced. Without it, a few hundred concurrent
 * large starts would fill the heap although each is within its own limit.
 */
interface BodyBudget {
  /** Adds `bytes` to those that the exchange holds. Returns false and adds nothing if the budget would be exceeded. */
  reserve(exchange: Exchange, bytes: number): boolean;
  release(exchange: Exchange): void;
}

function openBodyBudget(limit: number): BodyBudget {
  let used = 0;
  return {
    reserve(exchange, bytes) {
      if (used + bytes > limit) return false;
      used += bytes;
      exchange.reserved += bytes;
      return true;
    },
    release(exchange) {
      used -= exchange.reserved;
    },
  };
}

/** One time limit for many body reads. Cheaper than a timer for each, because nearly all end in time. */
interface Deadlines {
  /** Calls `late` after `limitMs`, at most CHECK_MS too late, unless the deadline is removed first. */
  add(late: () => void): Deadline;
  remove(deadline: Deadline): void;
}

interface Deadline {
  at: number;
  late: () => void;
}

/** Interval of the deadline checks (ms), the same as that of Node's own timeout checks. */
const CHECK_MS = 500;

function openDeadlines(limitMs: number): Deadlines {
  // Insertion order is the order of deadlines, so a check stops at the first one that has not passed.
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
