import type { Identity } from '#api/route.ts';

/** Who asks, on routes whose guards demand an actor. */
export interface Caller {
  id: string;
  isAdmin: boolean;
}

/** Whose notifications a call may touch: `own` the caller's, whoever that is; `role` any for an ADMIN, else the caller's. */
export type Scope = 'own' | 'role';

export function callerOf({ actor }: Identity): Caller {
  if (actor === undefined) throw new Error('a route without identity guard asked who calls');
  return { id: actor.id, isAdmin: actor.role === 'ADMIN' };
}

/** The user whose rows alone may be touched; null: anybody's. */
export function ownerIn(scope: Scope, caller: Caller): string | null {
  return scope === 'role' && caller.isAdmin ? null : caller.id;
}
