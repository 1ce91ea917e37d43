import type { Hasher } from '../../shared/infra/bcrypt/hasher.ts';
import type { AuthSettings } from '../../shared/infra/config/auth-settings.ts';
import type { Signer } from '../../shared/infra/jwt/signer.ts';
import type { Mongo } from '../../shared/infra/mongo/connect.ts';
import type { AddressFailures } from '../../shared/infra/redis/address-failures.ts';
import type { Now } from '../../shared/kernel/clock.ts';
import type { CallerAddress } from '../middleware/caller-address.ts';

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
