import type { Role } from './generated.ts';

/** The person for whom the gateway calls. */
export interface Identity {
  /** Claim `sub` of the access token. */
  readonly id: string;
  /** Null for a caller without a role, which only inboxes, preferences and alerts accept. */
  readonly role: Role | null;
  /** Claim `defaultOrganizationId`. The AI classifier requires it. */
  readonly organizationId?: string | null | undefined;
}

/** The calling service and its token. */
export interface Service {
  readonly name: string;
  readonly token: string;
}

/** Credentials of a caller. Each operation receives only what it reads. */
export interface Credentials {
  readonly as?: Identity;
  readonly service?: Service;
  /** A bearer token: an access token, a refresh token or `OPS_TOKEN`. */
  readonly token?: string;
  /** The device token of an earlier sign-in in the caller's browser. It only keeps strangers from slowing a login. */
  readonly device?: string | undefined;
}

export type Credential = keyof Credentials;

/** How an operation or a stream is called. */
export interface RouteFacts {
  readonly method: string;
  readonly path: string;
  /** Prefix of the headers that carry the identity. */
  readonly caller: 'user' | 'actor' | null;
  readonly reads: readonly Credential[];
  /** True if the operation accepts one credential or another. */
  readonly isEither: boolean;
  readonly organization: 'required' | 'optional' | 'unread';
  readonly readsKey: boolean;
}

const CREDENTIALS = ['as', 'service', 'token'] as const;

/**
 * Returns the credentials for an operation: those of the call before those of the client. Of alternatives it returns the first, because the
 * server checks internal credentials alone and would refuse those of a service that the route does not admit.
 */
export function chosenCredentials(route: RouteFacts, ofCall: Credentials, ofClient: Credentials): Credentials {
  if (!route.isEither) return { ...ofClient, ...ofCall };
  const given = CREDENTIALS.some((name) => ofCall[name] !== undefined) ? ofCall : ofClient;
  const first = CREDENTIALS.find((name) => route.reads.includes(name) && given[name] !== undefined);
  return first === undefined ? {} : { [first]: given[first] };
}

/** Adds the headers that carry the credentials. @throws TypeError if the route requires an organization and none is given */
export function addCredentials(
  headers: Headers,
  route: RouteFacts,
  { as, service, token, device }: Credentials,
  gatewayToken: string | undefined,
): void {
  const { reads, caller, organization } = route;
  if (as !== undefined && reads.includes('as') && caller !== null) {
    headers.set(`x-${caller}-id`, as.id);
    if (as.role !== null) headers.set(`x-${caller}-role`, as.role);
    if (organization !== 'unread' && as.organizationId) headers.set('x-organization-id', as.organizationId);
    if (gatewayToken !== undefined) headers.set('x-gateway-token', gatewayToken);
  }
  if (organization === 'required' && as !== undefined && !as.organizationId) {
    throw new TypeError(`${route.method} ${route.path} requires \`as.organizationId\``);
  }
  if (service !== undefined && reads.includes('service')) {
    headers.set('x-internal-service', service.name);
    headers.set('x-internal-token', service.token);
  }
  if (token !== undefined && reads.includes('token')) headers.set('authorization', `Bearer ${token}`);
  if (device !== undefined && reads.includes('device')) headers.set('x-device-token', device);
}
