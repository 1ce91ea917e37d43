import type { CountedAddress } from '#api/http/caller-address.ts';
import type { Call } from '#api/route.ts';
import type { AuthSettings } from '#infra/config/settings.ts';
import type { Signer } from '#infra/jwt/signer.ts';
import type { PairLookup } from '#infra/mongo/auth/known-pairs.ts';
import { findSession } from '#infra/mongo/auth/sessions.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { FairQueue } from '#infra/passwords/fair-queue.ts';
import type { HashLane } from '#infra/passwords/hash-queue.ts';
import type { Hasher } from '#infra/passwords/hasher.ts';
import type { AddressTurns } from '#infra/redis/address-turns.ts';
import { whyAccountRefused } from '#shared/auth/account.ts';
import { type Current, isLost, sessionEndOf } from '#shared/auth/session.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { Now } from '#shared/kernel/time.ts';
import type { AuthCounts } from './counts.ts';
import type { LoginEvidence } from './login-evidence.ts';

/** Dependencies of the auth service's front door. */
export interface AuthDeps {
  mongo: Mongo;
  hasher: Hasher;
  signer: Signer;
  /** Admits the login attempts of all networks in turn. */
  gate: Pick<FairQueue<'login'>, 'run'>;
  isKnownPair: PairLookup;
  /** Resolves after `ms`. */
  pause: (ms: number) => Promise<unknown>;
  /** Slows the login attempts of strangers from one address. */
  strangerTurns: AddressTurns;
  /** Slows the registrations from one address. */
  registrationTurns: AddressTurns;
  /** Returns the address under which a caller's login attempts are counted. */
  addressOf: CountedAddress;
  counts: AuthCounts;
  /** Ends the live streams of an account in every process, after a session of it has ended. The message may be lost. */
  endStreams: (accountId: string) => void;
  /** Writes security events about login attempts. */
  evidence: LoginEvidence;
  /** Resolves with a function that returns true for one of the most common passwords; `text` must be lower case. */
  commonPasswords: () => Promise<(text: string) => boolean>;
  /** Returns MongoDB's time (ms since the epoch). */
  now: Now;
  settings: AuthSettings;
}

/** Returns the lane of a caller whose password for this e-mail was right: the one of known pairs at its address. */
export function provenLane(deps: Pick<AuthDeps, 'addressOf'>, call: Call, email: string): HashLane {
  return { kind: 'known', address: deps.addressOf(call), account: email };
}

const INVALID: Rejection = { rejected: 'AUTH_INVALID_TOKEN' };

/** Returns the caller's current account and session. Refuses a valid access token if its session ended or its account is gone. */
export async function currentOf(
  deps: Pick<AuthDeps, 'mongo' | 'now' | 'settings'>,
  call: Call,
): Promise<Current | Rejection> {
  const claimed = call.identity.session;
  if (claimed === undefined) throw new Error('route without the access-token guard read its caller');
  const found = await findSession(deps.mongo, { sub: claimed.accountId, sid: claimed.sessionId });
  if (found.kind === 'missing') return INVALID;
  const { account, session } = found;
  const now = new Date(deps.now());
  const { sessionMaxMs } = deps.settings;
  if (isLost(found, now, sessionMaxMs) || sessionEndOf(session, sessionMaxMs) <= now) return INVALID;
  return whyAccountRefused(account) ?? { account, session };
}
