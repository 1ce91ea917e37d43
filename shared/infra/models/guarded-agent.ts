import { lookup as resolve } from 'node:dns';
import type { LookupFunction } from 'node:net';
import type { Agent } from 'undici';
import { addressKind, isMetadataName } from '#shared/classifier/provider/address-kind.ts';

const CONNECT_MS = 10_000;
const FORBIDDEN = 'ERR_FORBIDDEN_ADDRESS';

/** A host name resolved to a forbidden address. Recognize it by its code, because fetch passes it on as a cause. */
class ForbiddenAddress extends Error {
  readonly code = FORBIDDEN;

  constructor(hostname: string) {
    super(`${hostname} leads to an address at which no provider may be asked`);
    this.name = 'ForbiddenAddress';
  }
}

/** Returns whether a forbidden address caused this error, up to five causes deep. */
export function isForbiddenAddress(error: unknown): boolean {
  for (let cause: unknown = error, depth = 0; cause instanceof Error && depth < 5; cause = cause.cause, depth++) {
    if ('code' in cause && cause.code === FORBIDDEN) return true;
  }
  return false;
}

/**
 * Returns a resolver that checks every address. A host name that was valid when it was saved may resolve to another address
 * later. Link-local and metadata addresses are always refused; private ones are allowed only if the environment lists the
 * origin. One forbidden address refuses the whole host name.
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

/**
 * Opens an agent that connects through a guarded lookup. The caller must limit the time of headers and body. The first call loads the
 * library, which would be a tenth of the start of a front door.
 */
export async function openGuardedAgent(options: { allowsPrivate: boolean }): Promise<Agent> {
  const undici = await import('undici');
  return new undici.Agent({
    connect: { lookup: guardedLookup(options), timeout: CONNECT_MS },
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}
