import { passwordFaults } from '#shared/auth/password-policy.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { AuthDeps } from './deps.ts';

/** Why this may not be somebody's new password, one detail per reason; null when it may. `path` is where it stands in the body. */
export function weakPassword(
  deps: Pick<AuthDeps, 'settings' | 'isCommonPassword'>,
  password: string,
  whose: { email: string; fullName: string },
  path: string,
): Rejection | null {
  const faults = passwordFaults(password, {
    email: whose.email,
    fullName: whose.fullName,
    minLength: deps.settings.passwordMinLength,
    isCommon: deps.isCommonPassword,
  });
  if (faults.length === 0) return null;
  return { rejected: 'AUTH_WEAK_PASSWORD', details: faults.map((message) => ({ path, message })) };
}
