import { type AddressCounts, type AddressRule, STRANGERS } from './address-rule.ts';

/** Outcomes of requests by address, in memory. Every `now` is in ms and never decreases. */
export interface AddressBook {
  countsOf(address: string, now: number): AddressCounts;
  /** Returns the ms until the next turn of this address; 0 if it is free. */
  waitOf(address: string, now: number): number;
  /** Takes the turn and returns 0, or returns the ms to wait if it is taken. The next turn comes after `spacingMs`. */
  takeTurn(address: string, spacingMs: number, now: number): number;
  noteFailure(address: string, account: string, now: number): void;
  noteSuccess(address: string, account: string, now: number): void;
}

/** Accounts and the times of their last outcome, oldest first. */
type Outcomes = Map<string, number>;

interface Page {
  failed: Outcomes;
  succeeded: Outcomes;
  nextTurnAt: number;
}

/**
 * Returns an empty book of at most `maxOutcomes` outcomes. Beyond that it forgets the address that
 * was silent for longest.
 */
export function openAddressBook(
  maxOutcomes = 100_000,
  { windowMs }: Pick<AddressRule, 'windowMs'> = STRANGERS,
): AddressBook {
  // A page moves to the end when it is written, so the first one has been silent for longest.
  const pages = new Map<string, Page>();
  let outcomes = 0;

  function expire(list: Outcomes, now: number): void {
    for (const [account, at] of list) {
      if (now - at < windowMs) return;
      list.delete(account);
      outcomes -= 1;
    }
  }

  /** Returns the page without the outcomes that are too old, or null. */
  function read(address: string, now: number): Page | null {
    const page = pages.get(address);
    if (page === undefined) return null;
    expire(page.failed, now);
    expire(page.succeeded, now);
    return page;
  }

  function write(address: string, now: number): Page {
    const page = read(address, now) ?? { failed: new Map(), succeeded: new Map(), nextTurnAt: 0 };
    pages.delete(address);
    pages.set(address, page);
    return page;
  }

  function remove(list: Outcomes, account: string): void {
    if (list.delete(account)) outcomes -= 1;
  }

  function add(list: Outcomes, account: string, now: number): void {
    remove(list, account);
    list.set(account, now);
    outcomes += 1;
    for (const [address, page] of pages) {
      if (outcomes <= maxOutcomes) return;
      pages.delete(address);
      outcomes -= page.failed.size + page.succeeded.size;
    }
  }

  const waitOf = (address: string, now: number) => Math.max(0, (pages.get(address)?.nextTurnAt ?? 0) - now);

  return {
    countsOf(address, now) {
      const page = read(address, now);
      return { failed: page?.failed.size ?? 0, succeeded: page?.succeeded.size ?? 0 };
    },
    waitOf,
    takeTurn(address, spacingMs, now) {
      const waitMs = waitOf(address, now);
      if (waitMs === 0) write(address, now).nextTurnAt = now + spacingMs;
      return waitMs;
    },
    noteFailure: (address, account, now) => add(write(address, now).failed, account, now),
    noteSuccess(address, account, now) {
      const page = write(address, now);
      remove(page.failed, account);
      add(page.succeeded, account, now);
    },
  };
}
