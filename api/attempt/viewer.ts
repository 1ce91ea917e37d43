import type { Identity } from '#api/route.ts';
import type { Role, Viewer } from '#shared/attempt/visibility.ts';

/** Sister services on internal routes see what the student sees. */
export const SERVICE_VIEWER: Viewer = { role: 'SERVICE', id: '' };

/** Who asks; only on routes whose guards demand an identity. */
export function viewerOf(identity: Identity): Viewer {
  if (identity.actor === undefined) throw new Error('a route without identity guard asked for its viewer');
  return { role: identity.actor.role as Role, id: identity.actor.id };
}
