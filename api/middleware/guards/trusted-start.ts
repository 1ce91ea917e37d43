import type { Guard } from '#api/route.ts';
import { secretCheck } from '#shared/kernel/secret.ts';
import { singleHeader } from './single-header.ts';

/**
 * The trusted header set of a start: only the gateway, holding the receiver token, may bring a runtime that the
 * exam service decided. One code for every fault, and also when no token is configured, so that a prober learns
 * nothing from the difference.
 */
export function trustedStart(config: { token: string | undefined }): Guard {
  const isToken = secretCheck(config.token);
  return {
    name: 'trustedStart',
    codes: ['ATTEMPT_START_UNTRUSTED'],
    headers: [
      { name: 'x-internal-service', required: true, description: 'The calling service', example: 'api-gateway' },
      { name: 'x-internal-token', required: true, description: 'The receiver token of the attempt service' },
      {
        name: 'x-exam-runtime-decision-source',
        required: true,
        description: 'Who decided the runtime in the body',
        example: 'exam-service',
      },
    ],
    check(head) {
      const token = singleHeader(head, 'x-internal-token');
      const trusted =
        isToken !== undefined &&
        token !== undefined &&
        isToken(token) &&
        singleHeader(head, 'x-internal-service') === 'api-gateway' &&
        singleHeader(head, 'x-exam-runtime-decision-source') === 'exam-service';
      return trusted ? undefined : { rejected: 'ATTEMPT_START_UNTRUSTED' };
    },
  };
}
