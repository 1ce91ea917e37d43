import type { Guard, Route } from '#api/route.ts';
import { secretCheck } from '#shared/kernel/secret.ts';
import { singleHeader } from './single-header.ts';

/**
 * Undefined when no gateway token is configured: then identity headers are trusted from whoever can connect. An empty one is
 * configured and passes nobody: a secret that failed to arrive must not open the door.
 */
export function gatewayToken(config: { gatewayToken?: string | undefined }): Guard | undefined {
  if (config.gatewayToken === undefined) return undefined;
  const isToken = secretCheck(config.gatewayToken);
  return {
    name: 'gatewayToken',
    codes: ['UNAUTHENTICATED'],
    headers: [{ name: 'x-gateway-token', required: true, description: 'Proof that the gateway set the identity' }],
    check(head) {
      const token = singleHeader(head, 'x-gateway-token');
      return token !== undefined && isToken?.(token) === true ? undefined : { rejected: 'UNAUTHENTICATED' };
    },
  };
}

/** Puts the gateway token before all other guards of every route that trusts identity headers. */
export function behindGateway(routes: readonly Route[], gate: Guard | undefined): Route[] {
  if (gate === undefined) return [...routes];
  return routes.map((route) => {
    const trusting = route.guards.flatMap(({ trustsIdentity }) => trustsIdentity ?? []);
    return trusting.length === 0 ? route : { ...route, guards: [gateWhere(trusting, gate), ...route.guards] };
  });
}

/** The gate, passed by a request whose identity headers nobody is going to look at. */
function gateWhere(trusting: readonly NonNullable<Guard['trustsIdentity']>[], gate: Guard): Guard {
  if (trusting.includes('always')) return gate;
  return {
    ...gate,
    headers: gate.headers.map((header) => ({ ...header, required: false })),
    check: (head, known) =>
      trusting.some((trusts) => trusts === 'always' || trusts(head)) ? gate.check(head, known) : undefined,
  };
}
