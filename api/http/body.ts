import type { Head } from '#api/route.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { SECOND } from '#shared/kernel/time.ts';
import {
  type BodyBudget,
  type Callers,
  type Holding,
  holderOf,
  limitsOf,
  networkHolders,
  openBodyBudget,
  type ProcessLimits,
  type ShareLimits,
} from './body-budget.ts';
import type { CountedAddress } from './caller-address.ts';
import { type Deadlines, openDeadlines } from './deadlines.ts';
import type { Exchange } from './exchange.ts';
import { isJson, isUrlEncoded } from './headers.ts';
import { type Refused, refused } from './reply.ts';

/** Reads the request bodies of a process within budgets of bytes. */
export interface BodyReader {
  /**
   * Checks the body that the head announces, then reads at most `maxBytes`. Returns no bytes if the request has no body, and
   * `gone` if the client left before its body was complete.
   */
  read(exchange: Exchange, head: Head, rule: ReadRule): BodyRead | Promise<BodyRead>;
  /** Releases what an exchange holds. Called after its reply, because its parsed body is in memory until then. */
  release(exchange: Exchange): void;
  /** Returns what the requests of these callers hold, and their limit, in bytes. */
  budget(callers: Callers): Pick<BodyBudget, 'used' | 'limit'>;
}

/** The body that a route reads: JSON, or the fields of a form. */
interface ReadRule {
  maxBytes: number;
  isForm: boolean;
  callers: Callers;
}

/** Result of reading a body: its bytes, a refusal, or nothing because the client left. */
export type BodyRead = { kind: 'read'; bytes: Buffer } | Refused | { kind: 'gone' };

export interface BodyLimits extends ProcessLimits {
  /** Time limit (ms) for a body, from the end of the head. */
  bodyTimeoutMs: number;
  /** Limits of anonymous callers, in place of those that follow from the limits of the process; for tests. */
  anonymous?: ShareLimits;
  /** Grace of the least rate (ms), in place of GRACE_MS; for tests. */
  graceMs?: Readonly<Record<Callers, number>>;
  /** Bodies that may arrive at once at any rate, in place of CROWD; for tests. */
  crowd?: number;
}

const EMPTY = Buffer.alloc(0);
const BUSY: Rejection = {
  rejected: 'UNAVAILABLE',
  message: 'Too many request bodies are being read; retry later',
  retryAfter: 1,
};
/** Least rate of a body after its grace (bytes per second). A phone on a GPRS link sends about three times as much. */
const LEAST_RATE = 1_024;
/**
 * Bodies of one kind of callers that may arrive at once at any rate. A flood of half-sent requests is then held to the least rate, and a
 * slow client in an idle hour has its whole time limit.
 */
const CROWD = 32;
/**
 * Grace of the least rate (ms). A student's phone may lose its cell for seconds in the middle of a save. The body of a login
 * travels with its head, and half-sent logins must soon make room.
 */
const GRACE_MS: Readonly<Record<Callers, number>> = {
  identified: 10 * SECOND,
  accounts: 5 * SECOND,
  anonymous: 5 * SECOND,
};

/** Opens the reader of request bodies. `networkOf` returns the network of a caller that is not identified. */
export function openBodyReader(limits: BodyLimits, networkOf: CountedAddress): BodyReader {
  const { bodyTimeoutMs: limitMs, graceMs = GRACE_MS, crowd = CROWD } = limits;
  const ofNetwork = networkHolders(networkOf);
  const ofKind = limitsOf(limits);
  const readerOf = (callers: Callers, shared: ShareLimits) => ({
    budget: openBodyBudget(shared),
    deadlines: openDeadlines({ limitMs, graceMs: graceMs[callers], leastRate: LEAST_RATE, crowd }),
  });
  const readers: Readonly<Record<Callers, { budget: BodyBudget; deadlines: Deadlines }>> = {
    identified: readerOf('identified', ofKind.identified),
    accounts: readerOf('accounts', ofKind.accounts),
    anonymous: readerOf('anonymous', limits.anonymous ?? ofKind.anonymous),
  };
  return {
    read(exchange, head, { maxBytes, isForm, callers }) {
      const announced = checkBodyHead(head, maxBytes, isForm ? isUrlEncoded : isJson);
      if (announced.kind === 'refused') return announced;
      const { headers } = head;
      const { budget, deadlines } = readers[callers];
      const holder = callers === 'identified' ? holderOf(exchange.identity, maxBytes) : ofNetwork(exchange);
      const holding = budget.enter(holder);
      if (holding === null) return refused(BUSY);
      exchange.holding = holding;
      if (announced.kind === 'none') return { kind: 'read', bytes: EMPTY };
      const bounds = { maxBytes, holding, deadlines };
      return announced.length === undefined || headers.expect !== undefined
        ? readArriving(exchange, announced, bounds)
        : readAnnounced(exchange, announced.length, bounds);
    },
    release(exchange) {
      exchange.holding?.release();
    },
    budget: (callers) => readers[callers].budget,
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
function checkBodyHead(
  head: Head,
  maxBytes: number,
  isAccepted: (type: string) => boolean,
): Announced | { kind: 'none' } | Refused {
  const { headers, repeated } = head;
  const chunked = headers['transfer-encoding'] !== undefined;
  const length = chunked ? undefined : Number(headers['content-length'] ?? 0);
  if (length === 0) return { kind: 'none' };

  const type = headers['content-type'];
  const typeMissing = type === undefined && chunked;
  if (!typeMissing && (type === undefined || repeated.has('content-type') || !isAccepted(type))) {
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
  holding: Holding;
  deadlines: Deadlines;
}

/**
 * Reads a body whose length is announced. If all of it arrived in the packet of its head, as nearly all small bodies do, it is read at
 * once: without listeners and without a deadline.
 */
async function readAnnounced(exchange: Exchange, length: number, limits: ReadLimits): Promise<BodyRead> {
  const { request } = exchange;
  // Node passes on the head before it parses the rest of the packet, and runs promises after each piece of body. So this one resolves when
  // all bytes of the packet are here, but before Node marks the request as complete.
  await undefined;
  if (request.readableLength !== length || request.destroyed) {
    return readArriving(exchange, { kind: 'announced', length, typeMissing: false }, limits);
  }
  if (!limits.holding.charge(length)) return refused(BUSY);
  return { kind: 'read', bytes: request.read() as Buffer };
}

/** Reads a body that is arriving. Stops reading at the size limit, the time limit, the least rate or the limit of the budget. */
function readArriving(
  exchange: Exchange,
  announced: Announced,
  { maxBytes, holding, deadlines }: ReadLimits,
): Promise<BodyRead> {
  const { request, response } = exchange;
  // A packet with an invalid chunk behind its head is refused before restify's router has passed on the head.
  if (exchange.fault !== undefined) {
    exchange.broken = true;
    return Promise.resolve(refused(exchange.fault));
  }
  if (request.headers.expect?.toLowerCase() === '100-continue') response.writeContinue();
  return new Promise((settle) => {
    const chunks: Buffer[] = [];
    const arrival = deadlines.add(() => breakOff({ rejected: 'REQUEST_TIMEOUT' }));

    function onData(chunk: Buffer): void {
      arrival.received += chunk.length;
      if (announced.typeMissing) finish(refused({ rejected: 'UNSUPPORTED_MEDIA_TYPE' }));
      else if (arrival.received > maxBytes) finish(refused(tooLarge(maxBytes)));
      else if (!holding.charge(chunk.length)) finish(refused(BUSY));
      else chunks.push(chunk);
    }
    function onEnd(): void {
      const bytes =
        chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, arrival.received);
      deadlines.remove(arrival);
      exchange.interrupt = undefined;
      // The listeners remain: a request that has ended emits no more data, and its `close` means nothing.
      settle({ kind: 'read', bytes });
    }
    function onClose(): void {
      if (!request.readableEnded) finish({ kind: 'gone' });
    }
    function breakOff(why: Rejection): void {
      exchange.broken = true;
      finish(refused(why));
    }
    function finish(read: BodyRead): void {
      deadlines.remove(arrival);
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
