import { LRUCache } from 'lru-cache';
import { noteLockout, noteSlowedAddress } from '#infra/mongo/auth/login-events.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { KeyedHash } from '#infra/net/keyed-hash.ts';
import { isLockout } from '#shared/auth/throttle.ts';
import { HOUR, type Now } from '#shared/kernel/time.ts';

/** A failed login attempt. `key` names the count that it belongs to, and `failures` is that count. */
export interface FailedLogin {
  key: string;
  /** Null if the e-mail is unknown. */
  accountId: string | null;
  address: string;
  isKnown: boolean;
  failures: number;
}

/** Writes security events about login attempts. A flood causes one event, not one for each request. */
export interface LoginEvidence {
  /** Returns the hash under which an address is stored. */
  hashOf(address: string): string;
  /** Writes an event if the failures cause a long wait: at most one for each count and day. */
  failed(login: FailedLogin): Promise<void>;
  /** Writes that strangers from an address are slowed: at most one event for each address and hour. */
  slowed(address: string, spacingMs: number): Promise<void>;
}

/** Addresses of the current hour that a process remembers, so that a refused flood sends MongoDB nothing further. */
const REMEMBERED = 10_000;

/** Opens the writer of one front door. MongoDB's unique `_id` limits the events of all front doors together. */
export function openLoginEvidence({ mongo, now, hash }: { mongo: Mongo; now: Now; hash: KeyedHash }): LoginEvidence {
  const slowedIn = new LRUCache<string, number>({ max: REMEMBERED });
  const hashOf = (address: string) => hash('address', address);
  return {
    hashOf,
    async failed({ key, accountId, address, isKnown, failures }) {
      if (!isLockout(failures)) return;
      const metadata = { address: hashOf(address), failures, knownPair: isKnown ? 'yes' : 'no' };
      await noteLockout(mongo, { count: hash('account', key), accountId, metadata }, now());
    },
    async slowed(address, spacingMs) {
      const hour = Math.floor(now() / HOUR);
      if (slowedIn.get(address) === hour) return;
      await noteSlowedAddress(mongo, { address: hashOf(address), spacingMs }, now());
      slowedIn.set(address, hour);
    },
  };
}
