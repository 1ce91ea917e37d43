import type { Guard } from '#api/route.ts';
import { secretCheck } from '#shared/kernel/secret.ts';
import { bearerToken } from './bearer-token.ts';

const REFUSED = { rejected: 'UNAUTHENTICATED', message: 'Authorization: Bearer OPS_TOKEN is required' } as const;

/** In production operators' routes need `Authorization: Bearer OPS_TOKEN`; without a configured one nobody passes. */
export function opsToken(config: { opsToken?: string | undefined; production: boolean }): Guard {
  const isToken = secretCheck(config.opsToken);
  return {
    name: 'opsToken',
    codes: config.production ? ['UNAUTHENTICATED'] : [],
    headers: [{ name: 'authorization', required: config.production, description: 'Bearer OPS_TOKEN, in production' }],
    check(head) {
      if (!config.production) return undefined;
      const token = bearerToken(head);
      return token !== undefined && isToken?.(token) === true ? undefined : REFUSED;
    },
  };
}
