import type { Guard } from '../../route.ts';
import { PLAIN_IDENTITY } from './identity.ts';
import { singleHeader } from './single-header.ts';

const NAME = 'x-organization-id';

/** Takes the organization that the gateway may name into `identity.organizationId`; a malformed one is an identity fault. */
export function organization(): Guard {
  return {
    name: 'organization',
    codes: ['UNAUTHENTICATED'],
    headers: [
      {
        name: NAME,
        required: false,
        example: 'org-1',
        description: 'Organization of the caller, set by the gateway: the default of new objects, never a filter',
      },
    ],
    check(head, known) {
      if (head.headers[NAME] === undefined) return undefined;
      const id = singleHeader(head, NAME);
      if (id === undefined || !PLAIN_IDENTITY.test(id)) return { rejected: 'UNAUTHENTICATED' };
      known.organizationId = id;
      return undefined;
    },
  };
}
