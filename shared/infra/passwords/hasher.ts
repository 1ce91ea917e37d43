import { hash as digest, randomBytes } from 'node:crypto';
import * as bcrypt from 'bcrypt';
import pLimit from 'p-limit';
import type { StoredPassword } from '#shared/auth/account.ts';
import { normalizePassword } from '#shared/auth/password-policy.ts';

/** Every method but `isOutdated` may reject with HasherBusy: nothing was hashed, the caller may try again in a second. */
export interface Hasher {
  hashPassword(text: string): Promise<StoredPassword>;
  /** `null`: no account has this e-mail. Works as long as for a wrong password of an account, then says false. */
  verifyPassword(text: string, stored: StoredPassword | null): Promise<boolean>;
  /** Whether a right password should be hashed again. Cheaper hashes are weaker, dearer ones tell that their account exists. */
  isOutdated(stored: StoredPassword): boolean;
  hashToken(jwt: string): Promise<string>;
  verifyToken(jwt: string, hash: string): Promise<boolean>;
}

export interface HasherOptions {
  passwordCost: number;
  tokenCost: number;
  /** Passwords hashed at once. Hashes run on libuv's threads (4 unless UV_THREADPOOL_SIZE says otherwise): leave one for the rest. */
  concurrency: number;
  /** Passwords that may wait for a thread. */
  maxWaiting: number;
}

/** The native, asynchronous half of bcrypt: the event loop goes on meanwhile. */
export interface BcryptEngine {
  hash(text: string, cost: number): Promise<string>;
  compare(text: string, hash: string): Promise<boolean>;
}

/**
 * Tokens take milliseconds: in a line of their own they do not stand behind logins, and it is over in a second. A thread that
 * falls free takes what has waited longest, so two at once never wait for more than the one password before them.
 */
const TOKEN_QUEUE = { concurrency: 2, maxWaiting: 256 };

/** bcrypt for passwords and refresh tokens, bounded in how much runs and how much waits. */
export function openHasher(options: HasherOptions, engine: BcryptEngine = bcrypt): Hasher {
  const { passwordCost, tokenCost, concurrency, maxWaiting } = options;
  const passwords = boundedQueue({ concurrency, maxWaiting });
  const tokens = boundedQueue(TOKEN_QUEUE);
  const nobody = hashOfNobody(bcrypt.genSaltSync(passwordCost), randomBytes(31));

  /** Wrong passwords all take 2^passwordCost: what a cheaper hash, c, leaves of it is 2^c + 2^(c+1) + … + 2^(passwordCost−1). */
  async function refuseSlowly(text: string, spentCost: number): Promise<false> {
    for (let cost = spentCost; cost < passwordCost; cost += 1) {
      await engine.compare(text, hashOfNobody(bcrypt.genSaltSync(cost), randomBytes(31)));
    }
    return false;
  }

  return {
    hashPassword: (text) =>
      passwords(async () => ({ scheme: 'bcrypt-sha256', hash: await engine.hash(passwordDigest(text), passwordCost) })),
    verifyPassword: (text, stored) =>
      passwords(async () => {
        const cost = stored === null ? null : costOf(stored.hash);
        if (stored === null || cost === null) {
          await engine.compare(passwordDigest(text), nobody);
          return false;
        }
        // An imported hash was made of the text as it was typed.
        const input = stored.scheme === 'bcrypt' ? text : passwordDigest(text);
        return (await engine.compare(input, underKnownName(stored.hash))) || refuseSlowly(input, cost);
      }),
    isOutdated: ({ scheme, hash }) => scheme !== 'bcrypt-sha256' || costOf(hash) !== passwordCost,
    hashToken: (jwt) => tokens(() => engine.hash(tokenDigest(jwt), tokenCost)),
    verifyToken: (jwt, hash) => tokens(() => engine.compare(tokenDigest(jwt), hash)),
  };
}

/**
 * bcrypt reads 72 bytes and, elsewhere, stops at a NUL: of 64 letters of Vietnamese it would read a third. The digest is text,
 * since raw bytes may hold a NUL.
 */
function passwordDigest(text: string): string {
  return digest('sha256', normalizePassword(text), 'base64');
}

/** The refresh tokens of one account begin with the same 72 bytes and more. */
function tokenDigest(jwt: string): string {
  return digest('sha256', jwt, 'hex');
}

/** More hashes are waiting than would be done in a time that anybody waits for. */
export class HasherBusy extends Error {
  constructor() {
    super('Too many hashes are waiting');
    this.name = 'HasherBusy';
  }
}

type BoundedQueue = <T>(work: () => Promise<T>) => Promise<T>;

/** Runs `concurrency` works at once and lets `maxWaiting` more wait their turn; beyond that it rejects with HasherBusy at once. */
function boundedQueue({ concurrency, maxWaiting }: { concurrency: number; maxWaiting: number }): BoundedQueue {
  const limit = pLimit(concurrency);
  let admitted = 0;
  return async (work) => {
    if (admitted >= concurrency + maxWaiting) throw new HasherBusy();
    admitted += 1;
    try {
      return await limit(work);
    } finally {
      admitted -= 1;
    }
  };
}

/** `$2a$`, `$2b$` or `$2y$` (PHP's name for `$2b$`), a cost, 22 letters of salt and 31 of hash. */
const BCRYPT_HASH = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/;
const LETTERS = './ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const HASH_LETTERS = 31;

const LEAST_COST = 4;
/** A hash that somebody imports says how long every try at it takes: at 15 about two seconds, at 31 two days. */
const MOST_COST = 15;

/** The cost of a bcrypt hash that can be worked with; null when it is none, or would take too long. */
export function costOf(hash: string): number | null {
  const cost = Number(BCRYPT_HASH.exec(hash)?.[1] ?? 0);
  return cost >= LEAST_COST && cost <= MOST_COST ? cost : null;
}

/** The same hash under the one name that the library knows. */
function underKnownName(hash: string): string {
  return hash.replace(/^\$2y\$/, '$2b$');
}

/** A hash of this cost that nobody knows a password of: to compare with it takes what a real one takes. */
function hashOfNobody(salt: string, randomBytes: Uint8Array): string {
  const letters = Array.from({ length: HASH_LETTERS }, (_, index) => LETTERS[(randomBytes[index] ?? 0) & 63]);
  return salt + letters.join('');
}
