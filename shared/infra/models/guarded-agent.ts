import { lookup as resolve } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { Agent } from 'undici';
import { addressKind, isMetadataName } from '#shared/classifier/provider/address-kind.ts';

const CONNECT_MS = 10_000;
const FORBIDDEN = 'ERR_FORBIDDEN_ADDRESS';

/** A name led to an address at which no provider is asked. Told apart by its code: fetch hands it on as a cause. */
class ForbiddenAddress extends Error {
  readonly code = FORBIDDEN;

  constructor(hostname: string) {
    super(`${hostname} leads to an address at which no provider may be asked`);
    this.name = 'ForbiddenAddress';
  }
}

export function isForbiddenAddress(error: unknown): boolean {
  for (let cause: unknown = error, depth = 0; cause instanceof Error && depth < 5; cause = cause.cause, depth++) {
    if ('code' in cause && cause.code === FORBIDDEN) return true;
  }
  return false;
}

/**
 * A resolver that gives an address only after looking at it, so that a name checked when it was saved cannot lead
 * elsewhere when it is called: never to link-local or metadata addresses, and to private ones only where an operator
 * listed the origin. One bad address among good ones refuses them all.
 */
export function guardedLookup(options: { allowsPrivate: boolean }, ask: typeof resolve = resolve): LookupFunction {
  return (hostname, asked, callback) => {
    const answer = (error: NodeJS.ErrnoException | null, found?: { address: string; family: number }[]): void => {
      const [first] = found ?? [];
      if (error !== null || found === undefined || first === undefined) {
        callback(error ?? Object.assign(new Error(`${hostname} has no address`), { code: 'ENOTFOUND' }), []);
      } else if (isMetadataName(hostname) || !found.every(({ address }) => isFit(address, options.allowsPrivate))) {
        callback(new ForbiddenAddress(hostname), []);
      } else if (asked.all === true) {
        callback(null, found);
      } else {
        callback(null, first.address, first.family);
      }
    };
    ask(hostname, { ...asked, all: true }, answer);
  };
}

function isFit(address: string, allowsPrivate: boolean): boolean {
  const kind = addressKind(address);
  return kind === 'public' || (allowsPrivate && (kind === 'private' || kind === 'loopback'));
}

/** Connections of which each is made through a guarded lookup. Time is bounded by whoever calls, headers and body together. */
export function openGuardedAgent(options: { allowsPrivate: boolean }): Agent {
  return new Agent({
    connect: { lookup: guardedLookup(options), timeout: CONNECT_MS },
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}
