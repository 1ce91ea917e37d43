import type { Guard } from '#api/route.ts';
import { PLAIN_IDENTITY } from './identity.ts';
import { ORGANIZATION } from './organization.ts';
import { singleHeader } from './single-header.ts';

/** Demands the organization in which the caller acts, sent once, and fills `identity.organizationId`: what is another's is not there. */
export function scope(): Guard {
  return {
    name: 'scope',
    trustsIdentity: 'always',
    codes: ['UNAUTHENTICATED'],
    headers: [
      {
        name: ORGANIZATION,
        required: true,
        example: 'org-1',
        description: 'Organization in which the caller acts, set by the gateway',
      },
    ],
    check(head, known) {
      const id = singleHeader(head, ORGANIZATION);
      if (id === undefined || !PLAIN_IDENTITY.test(id)) return { rejected: 'UNAUTHENTICATED' };
      known.organizationId = id;
      return undefined;
    },
  };
}
