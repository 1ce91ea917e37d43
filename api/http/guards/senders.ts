import { singleHeader } from '#api/http/exchange.ts';
import type { Guard, Head, Proof, SecurityScheme } from '#api/route.ts';
import { type ErrorCode, isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { type Secrets, secretCheck } from '#shared/kernel/secret.ts';
import { headerFault, type IdentityHeaders, identity, namesCaller, organization, role } from './identity.ts';

const SENDER: SecurityScheme = {
  name: 'internalService',
  header: 'X-Internal-Service',
  description:
    'Name of the calling service. It counts only beside the token of this service in `X-Internal-Token`. An operation lists the services that may call it.',
};
const SENDER_TOKEN: SecurityScheme = {
  name: 'senderToken',
  header: 'X-Internal-Token',
  description:
    'Token of the service that `X-Internal-Service` names. The notification service and the AI classifier know one for each service; the default of all is INTERNAL_SERVICE_TOKEN.',
};
const RECEIVER_TOKEN: SecurityScheme = {
  name: 'receiverToken',
  header: 'X-Internal-Token',
  description:
    'Token of the attempt service, the same for every caller: ATTEMPT_INTERNAL_SERVICE_TOKEN, otherwise INTERNAL_SERVICE_TOKEN.',
};
const DECISION_SOURCE: SecurityScheme = {
  name: 'runtimeDecisionSource',
  header: 'X-Exam-Runtime-Decision-Source',
  description:
    'Service that decided the exam runtime in the body: `exam-service`. Only the gateway may send it, so that no student sends an exam of their own.',
};

export interface KnownSenders {
  /** Services that may send here. */
  senders: readonly string[];
  /** Token of each sender. A sender without a token is refused. */
  tokens: Readonly<Record<string, Secrets | undefined>>;
  unauthorizedCode: ErrorCode;
  /** Code of every reply while no sender has a token: the route refuses all calls rather than accept unproven ones. */
  unconfiguredCode: ErrorCode;
}

/** Requires one of several services with its own token, before a byte of the body is read. Fills `identity.sender`. */
export function knownSender(known: KnownSenders): Guard {
  const check = senderCheck(known);
  return {
    name: 'knownSender',
    proves: 'identity',
    codes: [known.unconfiguredCode, known.unauthorizedCode],
    headers: [],
    wrongToken: wrongSender(check),
    proofs: [senderProofs(known, SENDER_TOKEN)],
    check(head, identity) {
      const found = check(head);
      if (isRejection(found)) return found;
      identity.sender = found.sender;
      return undefined;
    },
  };
}

export interface InternalSender {
  /** The services that may send here. */
  senders: readonly string[];
  token: Secrets | undefined;
  unauthorizedCode: ErrorCode;
  /** Code of every reply while no token is configured. */
  unconfiguredCode: ErrorCode;
}

/** Requires one of these services with the receiver's token. Fills `identity.sender`. */
export function internalSender({ senders, token, unauthorizedCode, unconfiguredCode }: InternalSender): Guard {
  const tokens = Object.fromEntries(senders.map((sender) => [sender, token]));
  const known = { senders, tokens, unauthorizedCode, unconfiguredCode };
  return { ...knownSender(known), name: 'internalSender', proofs: [senderProofs(known, RECEIVER_TOKEN)] };
}

/**
 * Requires the trusted headers of a start: only the gateway, with the receiver token, may send a runtime that the exam
 * service decided. Every fault gets the same reply, which lists all wanted headers, also while no token is configured: a prober learns
 * nothing from the difference.
 */
export function trustedStart({ token }: { token: Secrets | undefined }): Guard {
  const known = {
    senders: ['api-gateway'],
    tokens: { 'api-gateway': token },
    unauthorizedCode: 'ATTEMPT_START_UNTRUSTED',
    unconfiguredCode: 'ATTEMPT_START_UNTRUSTED',
  } as const;
  const check = senderCheck(known);
  return {
    name: 'trustedStart',
    proves: 'identity',
    codes: ['ATTEMPT_START_UNTRUSTED'],
    headers: [],
    wrongToken: wrongSender(check),
    proofs: [[...senderProofs(known, RECEIVER_TOKEN), { scheme: DECISION_SOURCE, values: ['exam-service'] }]],
    check(head) {
      const isExamService = singleHeader(head, 'x-exam-runtime-decision-source') === 'exam-service';
      return isExamService && !isRejection(check(head)) ? undefined : UNTRUSTED;
    },
  };
}

const UNTRUSTED: Rejection = {
  rejected: 'ATTEMPT_START_UNTRUSTED',
  details: [
    headerFault('x-internal-service', 'must be api-gateway'),
    headerFault('x-internal-token', 'must be the token of the attempt service'),
    headerFault('x-exam-runtime-decision-source', 'must be exam-service'),
  ],
};

/**
 * Requires an ADMIN, or a known service with its own token. The credentials of a known service are checked alone. Identity headers cannot replace
 * wrong ones, and right ones need neither identity headers nor the gateway's token. The credentials of
 * another service change nothing beside an identity, because a gateway adds its own to every call. Either caller may name an
 * organization, which is checked before the role. Fills `identity.actor` or `identity.sender`, and `identity.organizationId`.
 */
export function adminOrSender(names: IdentityHeaders, known: KnownSenders): Guard {
  const check = senderCheck(known);
  const isWrong = wrongSender(check);
  const ofCall = organization();
  const admin = [identity(names), ofCall, role('ADMIN')];
  return {
    name: 'adminOrSender',
    proves: 'identity',
    codes: [known.unconfiguredCode, known.unauthorizedCode, ...admin.flatMap((guard) => guard.codes)],
    headers: ofCall.headers,
    wrongToken: (head) => (actsAsSender(head, known.senders, names) ? isWrong(head) : undefined),
    proofs: [
      senderProofs(known, SENDER_TOKEN),
      [{ scheme: names.schemes.id }, { scheme: names.schemes.role, values: ['ADMIN'] }],
    ],
    trustsIdentity: (head) => !actsAsSender(head, known.senders, names),
    check(head, found) {
      if (actsAsSender(head, known.senders, names)) {
        const sender = check(head);
        if (isRejection(sender)) return sender;
        found.sender = sender.sender;
        return ofCall.check(head, found);
      }
      for (const guard of admin) {
        const refused = guard.check(head, found);
        if (refused !== undefined) return refused;
      }
      return undefined;
    },
  };
}

/** Returns true if a call is that of a service: it shows internal credentials, and not those of a service that is no sender here. */
function actsAsSender(head: Head, senders: readonly string[], names: IdentityHeaders): boolean {
  const { headers } = head;
  if (headers['x-internal-service'] === undefined && headers['x-internal-token'] === undefined) return false;
  const service = singleHeader(head, 'x-internal-service');
  const isOther = service !== undefined && service !== '' && !senders.includes(service);
  return !isOther || !namesCaller(head, names);
}

/** Returns the service whose name and token the head carries, or a rejection. */
type SenderCheck = (head: Head) => { sender: string } | Rejection;

function senderCheck(known: KnownSenders): SenderCheck {
  const checks = new Map<string, (given: string) => boolean>();
  for (const sender of known.senders) {
    const isToken = secretCheck(known.tokens[sender]);
    if (isToken !== undefined) checks.set(sender, isToken);
  }
  return (head) => {
    if (checks.size === 0) return { rejected: known.unconfiguredCode };
    const sender = singleHeader(head, 'x-internal-service');
    const token = singleHeader(head, 'x-internal-token');
    const isToken = sender === undefined ? undefined : checks.get(sender);
    if (sender === undefined || token === undefined || isToken?.(token) !== true) {
      return { rejected: known.unauthorizedCode };
    }
    return { sender };
  };
}

/** Returns whether a head has the token of a service that is not that of its sender. */
function wrongSender(check: SenderCheck): NonNullable<Guard['wrongToken']> {
  return (head) => {
    const token = singleHeader(head, 'x-internal-token') ?? '';
    return token === '' || !isRejection(check(head)) ? undefined : 'service';
  };
}

/** Returns the two headers by which a service authenticates, for OpenAPI. */
function senderProofs({ senders }: Pick<KnownSenders, 'senders'>, token: SecurityScheme): Proof[] {
  return [{ scheme: SENDER, values: senders }, { scheme: token }];
}
