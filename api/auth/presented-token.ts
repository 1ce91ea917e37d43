import type { Call } from '#api/route.ts';
import type { TokenRequest } from '#shared/generated/auth.ts';
import type { Rejection } from '#shared/kernel/errors.ts';

/** The refresh token of a call, from its body or its Bearer header; undefined without one. Two different ones are a mistake. */
export function presentedToken(call: Call<TokenRequest>): { token: string | undefined } | Rejection {
  const inBody = call.body.refreshToken ?? undefined;
  const { bearer } = call.identity;
  if (inBody !== undefined && bearer !== undefined && inBody !== bearer) {
    const message = 'differs from the token in the Authorization header';
    return { rejected: 'VALIDATION_FAILED', details: [{ path: '/refreshToken', message }] };
  }
  return { token: inBody ?? bearer };
}
