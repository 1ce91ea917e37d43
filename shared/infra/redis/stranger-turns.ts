import type { Redis } from 'ioredis';
import { type AddressBook, openAddressBook } from '#shared/auth/address-book.ts';
import { ADDRESS_WINDOW_MS, spacingOf } from '#shared/auth/address-rule.ts';
import { type Now, SECOND } from '#shared/kernel/time.ts';
import { keepIoredis } from './connection.ts';
import { type LinkLog, withReplyTimeout } from './link.ts';

/** The turn of strangers from one address, without taking it. */
export interface Turn {
  /** Least time between two verified login attempts; 0: the address is within its allowance, and no turn is needed. */
  spacingMs: number;
  /** Time until the next turn; 0: it is free. */
  waitMs: number;
}

/** Slows strangers by address, across all front doors. No method throws or takes longer than `boundMs`. */
export interface StrangerTurns {
  look(address: string): Promise<Turn>;
  /** Takes a turn and returns 0, or returns the ms to wait if another login attempt has taken it. */
  take(address: string, spacingMs: number): Promise<number>;
  /** Records a login attempt with a wrong password. `account`: a digest, of an unknown e-mail as well. */
  failed(address: string, account: string): Promise<void>;
  /** Records a login attempt with the right password. */
  succeeded(address: string, account: string): Promise<void>;
  close(): Promise<void>;
}

/** Pause before the next dial after a call timed out. A slow Redis then delays one login by `boundMs`, not every login. */
const QUIET_MS = SECOND;
const PREFIX = 'examhall:auth:address';
/** Accounts that each list of an address holds; a sprayer reaches about 9,000 a day. The oldest one is dropped. */
const MAX_ACCOUNTS = 10_000;
/** Outcomes that a process stores for the end of an outage of Redis, and those of them that it sends with one login. */
const MAX_UNSENT = 10_000;
const MAX_BATCH = 100;

/** The outcome of one login attempt. */
interface Outcome {
  kind: 'failed' | 'succeeded';
  address: string;
  account: string;
  at: number;
}

/**
 * Opens the turns. The lists of accounts are in Redis and expire after 24 hours. Each process also notes the outcomes that it sees
 * itself, within a fixed memory. While Redis is unreachable, that book decides.
 */
export function openStrangerTurns(deps: {
  redisUrl: string;
  log: LinkLog;
  now: Now;
  /** Time limit of a call to Redis. Default 50. */
  boundMs?: number;
}): StrangerTurns {
  const { now, boundMs = 50 } = deps;
  const link = keepIoredis({ ...deps, purpose: 'address limits' });
  const book = openAddressBook();

  /** Returns the reply of Redis, or null if it is unreachable, fails or exceeds `boundMs`. */
  async function ask<T>(question: (client: Redis) => Promise<T>): Promise<T | null> {
    const client = link.current();
    if (client === null) return null;
    try {
      return await withReplyTimeout(boundMs, question(client));
    } catch (error) {
      link.drop(client, error, QUIET_MS);
      return null;
    }
  }

  /** Outcomes that Redis has not acknowledged, oldest first. Without them, a flood that slows Redis would not be counted. */
  const unsent = new Set<Outcome>();

  async function send(outcome: Outcome): Promise<void> {
    unsent.add(outcome);
    for (const oldest of unsent) {
      if (unsent.size <= MAX_UNSENT) break;
      unsent.delete(oldest);
    }
    // An outcome that is sent twice changes nothing.
    const batch = [...unsent].slice(0, MAX_BATCH);
    const sent = await ask(async (client) => {
      const commands = batch.reduce((multi, one) => addOutcome(multi, one), client.multi());
      return numbersOf(await commands.exec());
    });
    if (sent !== null) for (const one of batch) unsent.delete(one);
  }

  return {
    async look(address) {
      const at = now();
      return (await ask((client) => lookIn(client, address, at))) ?? lookInBook(book, address, at);
    },
    async take(address, spacingMs) {
      const at = now();
      const waitMs = await ask((client) => takeIn(client, address, spacingMs));
      // A turn from Redis is noted too, so that an outage grants no second one.
      if (waitMs === 0) book.takeTurn(address, spacingMs, at);
      return waitMs ?? book.takeTurn(address, spacingMs, at);
    },
    async failed(address, account) {
      const at = now();
      book.noteFailure(address, account, at);
      await send({ kind: 'failed', address, account, at });
    },
    async succeeded(address, account) {
      const at = now();
      book.noteSuccess(address, account, at);
      await send({ kind: 'succeeded', address, account, at });
    },
    close: () => link.close(),
  };
}

const failedKey = (address: string) => `${PREFIX}:${address}:failed`;
const succeededKey = (address: string) => `${PREFIX}:${address}:succeeded`;
const turnKey = (address: string) => `${PREFIX}:${address}:turn`;

type Batch = ReturnType<Redis['multi']>;

function addOutcome(batch: Batch, { kind, address, account, at }: Outcome): Batch {
  if (kind === 'failed') return add(batch, failedKey(address), account, at);
  return add(batch.zrem(failedKey(address), account), succeededKey(address), account, at);
}

/** Adds an account to a list and drops what the list need not hold: old accounts and those beyond its limit. */
function add(batch: Batch, list: string, account: string, at: number): Batch {
  return batch
    .zadd(list, at, account)
    .zremrangebyscore(list, '-inf', at - ADDRESS_WINDOW_MS)
    .zremrangebyrank(list, 0, -MAX_ACCOUNTS - 1)
    .pexpire(list, ADDRESS_WINDOW_MS);
}

async function lookIn(client: Redis, address: string, at: number): Promise<Turn> {
  const since = `(${at - ADDRESS_WINDOW_MS}`;
  const replies = await client
    .multi()
    .zcount(failedKey(address), since, '+inf')
    .zcount(succeededKey(address), since, '+inf')
    .pttl(turnKey(address))
    .exec();
  const [failed = 0, succeeded = 0, leftMs = 0] = numbersOf(replies);
  return turnOf(spacingOf({ failed, succeeded }), leftMs);
}

function lookInBook(book: AddressBook, address: string, at: number): Turn {
  return turnOf(spacingOf(book.countsOf(address, at)), book.waitOf(address, at));
}

/** A turn that was taken before the address came within its allowance again holds up no login attempt. */
function turnOf(spacingMs: number, leftMs: number): Turn {
  return { spacingMs, waitMs: spacingMs === 0 ? 0 : Math.max(0, leftMs) };
}

/** Sets a key that expires after the spacing. Of concurrent callers one sets it, and the others read how long it stays. */
async function takeIn(client: Redis, address: string, spacingMs: number): Promise<number> {
  const key = turnKey(address);
  if ((await client.set(key, '1', 'PX', spacingMs, 'NX')) === 'OK') return 0;
  return Math.max(1, await client.pttl(key));
}

/** Returns the numbers of a batch's replies. Throws the first error among them. */
function numbersOf(replies: [error: Error | null, result: unknown][] | null): number[] {
  return (replies ?? []).map(([error, result]) => {
    if (error !== null) throw error;
    if (typeof result !== 'number') throw new Error('Redis did not answer with a number');
    return result;
  });
}
