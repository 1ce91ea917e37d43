import { hash as digest, randomBytes } from 'node:crypto';
import * as bcrypt from 'bcrypt';
import pLimit from 'p-limit';
import type { StoredPassword } from '#shared/auth/account.ts';
import { composed, hasMarkRun } from '#shared/kernel/text.ts';
import { HASHER_BUSY, type QueueLoad } from './fair-queue.ts';
import { type HashLane, type HashQueueOptions, hashQueue, type LaneKind } from './hash-queue.ts';

/** Every method that returns a promise may reject with HasherBusy. Nothing was hashed then, and the caller may retry in a second. */
export interface Hasher {
  /** Hashes a new password. `lane`: whose it is; by default that of a caller without an address. */
  hashPassword(text: string, lane?: HashLane): Promise<StoredPassword>;
  /** Compares a password. If `stored` is null (no account), it takes as long as for a wrong password and returns false. */
  verifyPassword(text: string, stored: StoredPassword | null, lane?: HashLane): Promise<boolean>;
  /** Returns how long the last comparison of a password took, without its wait (ms); 0 before the first one. */
  lastCheckMs(): number;
  /** Returns true if a password could enter the lane now. */
  hasRoom(lane: HashLane): boolean;
  /** Returns how many passwords are being hashed and how many wait. */
  load(): QueueLoad<LaneKind>;
  /**
   * Returns true if the password should be hashed again at the current cost. A cheaper hash is weaker. A more expensive one reveals
   * by its duration that the account exists.
   */
  isOutdated(stored: StoredPassword): boolean;
  hashToken(jwt: string): Promise<string>;
  verifyToken(jwt: string, hash: string): Promise<boolean>;
}

/**
 * `concurrency`: passwords hashed at once. Hashes run on libuv's threads (UV_THREADPOOL_SIZE, default 4); leave one for other
 * work.
 */
export interface HasherOptions extends HashQueueOptions {
  passwordCost: number;
  tokenCost: number;
}

/** The native, asynchronous part of bcrypt, which does not block the event loop. */
export interface BcryptEngine {
  hash(text: string, cost: number): Promise<string>;
  compare(text: string, hash: string): Promise<boolean>;
}

/** The lane of a caller without an address: the operator's tool. */
const LOCAL: HashLane = { kind: 'registration', address: '', account: null };

/**
 * Limits of token hashes. They take milliseconds, and their own queue keeps them from waiting behind logins. A full queue is done
 * within a second. Because libuv runs the oldest work first, two token hashes wait for at most one password hash.
 */
const TOKEN_QUEUE = { concurrency: 2, maxWaiting: 256 };

/** Opens bcrypt for passwords and refresh tokens, with limits for running and waiting work. */
export function openHasher(options: HasherOptions, engine: BcryptEngine = bcrypt): Hasher {
  const { passwordCost, tokenCost } = options;
  const { run, hasRoom, load } = hashQueue(options);
  const tokens = boundedQueue(TOKEN_QUEUE);
  const decoy = decoyHash(bcrypt.genSaltSync(passwordCost), randomBytes(31));
  const isWrong = (right: boolean) => !right;
  let lastCheckMs = 0;

  /**
   * Makes every wrong password take the same work, 2^passwordCost. After the comparison with a cheaper hash of cost c, the missing
   * work is 2^c + 2^(c+1) + … + 2^(passwordCost−1).
   */
  async function refuseSlowly(text: string, spentCost: number): Promise<false> {
    for (let cost = spentCost; cost < passwordCost; cost += 1) {
      await engine.compare(text, decoyHash(bcrypt.genSaltSync(cost), randomBytes(31)));
    }
    return false;
  }

  async function check(text: string, stored: StoredPassword | null): Promise<boolean> {
    const from = performance.now();
    const result = await isRight(text, stored);
    lastCheckMs = performance.now() - from;
    return result;
  }

  async function isRight(text: string, stored: StoredPassword | null): Promise<boolean> {
    const cost = stored === null ? null : costOf(stored.hash);
    // No account has a password with a run of combining marks. An imported hash could be of one, and must not match it.
    if (stored === null || cost === null || hasMarkRun(text)) {
      await engine.compare(passwordDigest(text), decoy);
      return false;
    }
    // An imported hash was computed from the text as it was typed.
    const input = stored.scheme === 'bcrypt' ? text : passwordDigest(text);
    return (await engine.compare(input, underKnownName(stored.hash))) || refuseSlowly(input, cost);
  }

  return {
    hashPassword: (text, lane = LOCAL) =>
      run(lane, async () => {
        return { scheme: 'bcrypt-sha256', hash: await engine.hash(passwordDigest(text), passwordCost) };
      }),
    verifyPassword: (text, stored, lane = LOCAL) => run(lane, () => check(text, stored), isWrong),
    lastCheckMs: () => lastCheckMs,
    hasRoom,
    load,
    isOutdated: ({ scheme, hash }) => scheme !== 'bcrypt-sha256' || costOf(hash) !== passwordCost,
    hashToken: (jwt) => tokens(() => engine.hash(tokenDigest(jwt), tokenCost)),
    verifyToken: (jwt, hash) => tokens(() => engine.compare(tokenDigest(jwt), hash)),
  };
}

/**
 * Returns the text that bcrypt hashes for a password. bcrypt reads only 72 bytes, about a third of 64 Vietnamese letters, and some
 * implementations stop at a NUL. The digest is base64, because raw bytes may contain a NUL.
 */
function passwordDigest(text: string): string {
  return digest('sha256', composed(text), 'base64');
}

/** Returns the text that bcrypt hashes for a token. The refresh tokens of an account share their first 72 bytes, all that bcrypt reads. */
function tokenDigest(jwt: string): string {
  return digest('sha256', jwt, 'hex');
}

type BoundedQueue = <T>(work: () => Promise<T>) => Promise<T>;

/** Returns a queue that runs `concurrency` pieces of work at once and lets `maxWaiting` wait. It rejects more with HasherBusy at once. */
function boundedQueue({ concurrency, maxWaiting }: { concurrency: number; maxWaiting: number }): BoundedQueue {
  const limit = pLimit(concurrency);
  let admitted = 0;
  return async (work) => {
    if (admitted >= concurrency + maxWaiting) throw HASHER_BUSY;
    admitted += 1;
    try {
      return await limit(work);
    } finally {
      admitted -= 1;
    }
  };
}

/** `$2a$`, `$2b$` or `$2y$` (PHP's name for `$2b$`), a cost, 22 characters of salt and 31 of hash. */
const BCRYPT_HASH = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/;
const LETTERS = './ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const HASH_LETTERS = 31;

const MIN_COST = 4;
/** Upper bound of a cost. An imported hash determines how long each comparison takes: about two seconds at 15, two days at 31. */
const MAX_COST = 15;

/** Returns the cost of a bcrypt hash; null if the text is not a bcrypt hash or its cost is out of bounds. */
export function costOf(hash: string): number | null {
  const cost = Number(BCRYPT_HASH.exec(hash)?.[1] ?? 0);
  return cost >= MIN_COST && cost <= MAX_COST ? cost : null;
}

/** Returns the same hash under a name that the library accepts. */
function underKnownName(hash: string): string {
  return hash.replace(/^\$2y\$/, '$2b$');
}

/** Returns a random hash that no known password matches. A comparison takes as long as with a real hash of the same cost. */
function decoyHash(salt: string, randomBytes: Uint8Array): string {
  const letters = Array.from({ length: HASH_LETTERS }, (_, index) => LETTERS[(randomBytes[index] ?? 0) & 63]);
  return salt + letters.join('');
}
