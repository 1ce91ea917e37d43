import type { CallerAddress } from '#api/middleware/caller-address.ts';
import type { AuthSettings } from '#infra/config/settings.ts';
import type { Signer } from '#infra/jwt/signer.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Hasher } from '#infra/passwords/hasher.ts';
import type { AddressFailures } from '#infra/redis/address-failures.ts';
import type { Now } from '#shared/kernel/time.ts';

/** What the auth service's front door works with. */
export interface AuthDeps {
  mongo: Mongo;
  hasher: Hasher;
  signer: Signer;
  /** Wrong passwords by the address that they came from. */
  addressFailures: AddressFailures;
  addressOf: CallerAddress;
  /** Whether a lower-case text is among the passwords that everybody tries first. */
  isCommonPassword: (text: string) => boolean;
  /** MongoDB's time. */
  now: Now;
  settings: AuthSettings;
}
