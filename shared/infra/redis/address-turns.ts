import type { Redis } from 'ioredis';
import { openAddressBook } from '#shared/auth/address-book.ts';
import { type AddressRule, REGISTRATIONS, STRANGERS } from '#shared/auth/address-rule.ts';
import { type Now, SECOND } from '#shared/kernel/time.ts';
import { keepIoredis } from './connection.ts';
import { type LinkLog, withReplyTimeout } from './link.ts';

/** The turn of one address, without taking it. */
export interface Turn {
  /**
   * Least time between two verified requests; 0: the address is within its allowance, and no turn
   * is needed.
   */
  spacingMs: number;
  /** Time until the next turn; 0: it is free. */
  waitMs: number;
}

/**
 * Slows one kind of requests by address, across all front doors. No method throws or takes longer
 * than `boundMs`.
 */
export interface AddressTurns {
  look(address: string): Promise<Turn>;
  /** Takes a turn and returns 0, or returns the ms to wait if another request has taken it. */
  take(address: string, spacingMs: number): Promise<number>;
  /**
   * Records a login with a wrong password, or a registration of what is taken. `account`: a digest,
   * of an unknown e-mail as well.
   */
  failed(address: string, account: string): Promise<void>;
  /** Records a login with the right password, or an accepted registration. */
  succeeded(address: string, account: string): Promise<void>;
}

/** The turns of login attempts of strangers, and those of registrations. */
export interface AllTurns {
  strangers: AddressTurns;
  registrations: AddressTurns;
  close(): Promise<void>;
}

/**
 * Pause before the next dial after a call timed out. A slow Redis then delays one request by
 * `boundMs`, not every one.
 */
const QUIET_MS = SECOND;
const PREFIX = { strangers: 'examhall:auth:address', registrations: 'examhall:auth:registrations' } as const;
/**
 * Accounts that each list of an address holds; a sprayer reaches about 9,000 a day. The oldest one
 * is dropped.
 */
const MAX_ACCOUNTS = 10_000;
/**
 * Outcomes that a process stores for the end of an outage of Redis, and those of them that it sends
 * with one request.
 */
const MAX_UNSENT = 10_000;
const MAX_BATCH = 100;

/** The outcome of one request. */
interface Outcome {
  kind: 'failed' | 'succeeded';
  address: string;
  account: string;
  at: number;
}

/**
 * Opens the turns. The lists of accounts are in Redis and expire with the window of their rule.
 * Each process also notes the outcomes that it sees itself, within a fixed memory. While Redis is
 * unreachable, that book decides.
 */
export function openAddressTurns(deps: {
  redisUrl: string;
  log: LinkLog;
  now: Now;
  /** Time limit of a call to Redis. Default 50. */
  boundMs?: number;
}): AllTurns {
  const { now, boundMs = 50 } = deps;
  const link = keepIoredis({ ...deps, purpose: 'address limits' });

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

  const turns = (prefix: string, rule: AddressRule) => turnsOf({ ask, now, prefix, rule });
  return {
    strangers: turns(PREFIX.strangers, STRANGERS),
    registrations: turns(PREFIX.registrations, REGISTRATIONS),
    close: () => link.close(),
  };
}

interface TurnDeps {
  ask<T>(question: (client: Redis) => Promise<T>): Promise<T | null>;
  now: Now;
  prefix: string;
  rule: AddressRule;
}

function turnsOf({ ask, now, prefix, rule }: TurnDeps): AddressTurns {
  const book = openAddressBook(undefined, rule);
  const lists: Lists = { prefix, rule };
  /**
   * Outcomes that Redis has not acknowledged, oldest first. Without them, a flood that slows Redis
   * would not be counted.
   */
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
      const commands = batch.reduce((multi, one) => addOutcome(multi, lists, one), client.multi());
      return numbersOf(await commands.exec());
    });
    if (sent !== null) for (const one of batch) unsent.delete(one);
  }

  return {
    async look(address) {
      const at = now();
      const read = await ask((client) => lookIn(client, lists, { address, at }));
      return read ?? turnOf(rule.spacingOf(book.countsOf(address, at)), book.waitOf(address, at));
    },
    async take(address, spacingMs) {
      const at = now();
      const waitMs = await ask((client) => takeIn(client, turnKey(lists, address), spacingMs));
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
  };
}

/** The lists of one kind of requests in Redis. */
type Lists = Pick<TurnDeps, 'prefix' | 'rule'>;

const failedKey = ({ prefix }: Lists, address: string) => `${prefix}:${address}:failed`;
const succeededKey = ({ prefix }: Lists, address: string) => `${prefix}:${address}:succeeded`;
const turnKey = ({ prefix }: Lists, address: string) => `${prefix}:${address}:turn`;

type Batch = ReturnType<Redis['multi']>;

function addOutcome(batch: Batch, lists: Lists, { kind, address, account, at }: Outcome): Batch {
  const { windowMs } = lists.rule;
  const failed = failedKey(lists, address);
  if (kind === 'failed') return add(batch, failed, { account, at, windowMs });
  return add(batch.zrem(failed, account), succeededKey(lists, address), { account, at, windowMs });
}

/**
 * Adds an account to a list and drops what the list need not hold: old accounts and those beyond
 * its limit.
 */
function add(
  batch: Batch,
  list: string,
  { account, at, windowMs }: { account: string; at: number; windowMs: number },
): Batch {
  return batch
    .zadd(list, at, account)
    .zremrangebyscore(list, '-inf', at - windowMs)
    .zremrangebyrank(list, 0, -MAX_ACCOUNTS - 1)
    .pexpire(list, windowMs);
}

async function lookIn(client: Redis, lists: Lists, { address, at }: { address: string; at: number }): Promise<Turn> {
  const since = `(${at - lists.rule.windowMs}`;
  const replies = await client
    .multi()
    .zcount(failedKey(lists, address), since, '+inf')
    .zcount(succeededKey(lists, address), since, '+inf')
    .pttl(turnKey(lists, address))
    .exec();
  const [failed = 0, succeeded = 0, leftMs = 0] = numbersOf(replies);
  return turnOf(lists.rule.spacingOf({ failed, succeeded }), leftMs);
}

/** A turn that was taken before the address came within its allowance again holds up no request. */
function turnOf(spacingMs: number, leftMs: number): Turn {
  return { spacingMs, waitMs: spacingMs === 0 ? 0 : Math.max(0, leftMs) };
}

/**
 * Sets a key that expires after the spacing. Of concurrent callers one sets it, and the others read
 * how long it stays.
 */
async function takeIn(client: Redis, key: string, spacingMs: number): Promise<number> {
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
