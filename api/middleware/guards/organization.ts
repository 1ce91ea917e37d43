import type { Guard } from '#api/route.ts';
import { PLAIN_IDENTITY } from './identity.ts';
import { singleHeader } from './single-header.ts';

export const ORGANIZATION = 'x-organization-id';

/** Takes the organization that the gateway may name into `identity.organizationId`; a malformed one is an identity fault. */
export function organization(): Guard {
  return {
    name: 'organization',
    codes: ['UNAUTHENTICATED'],
    headers: [
      {
        name: ORGANIZATION,
        required: false,
        example: 'org-1',
        description: 'Organization of the caller, set by the gateway: the default of new objects, never a filter',
      },
    ],
    check(head, known) {
      if (head.headers[ORGANIZATION] === undefined) return undefined;
      const id = singleHeader(head, ORGANIZATION);
      if (id === undefined || !PLAIN_IDENTITY.test(id)) return { rejected: 'UNAUTHENTICATED' };
      known.organizationId = id;
      return undefined;
    },
  };
}
