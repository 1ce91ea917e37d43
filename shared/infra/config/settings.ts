import type { Role } from '#shared/auth/account.ts';
import { GENERIC_KEY_VARIABLE, KEY_VARIABLE, type KeyVariable } from '#shared/classifier/provider/names.ts';
import { CHANNELS, type Channel } from '#shared/notification/delivery.ts';
import { SENDERS, type Sender } from '#shared/notification/event.ts';
import { SELF_REGISTER_ROLES } from './variable.ts';
import type { VariableReader } from './variable-reader.ts';
import type { NamesOf } from './variables.ts';

/** The parts of a configuration, and how each is read: one for each service, and the neighbours. */

export interface AttemptSettings {
  /** Demanded by start, release and handoff. */
  receiverToken: string | undefined;
  gradingWaitMs: number;
  overdueGraceSeconds: number;
  outbox: { maxAttempts: number; retryBaseMs: number };
  startBudgetMs: number;
}

export function readAttempt(from: VariableReader): AttemptSettings {
  return {
    receiverToken: firstToken(from, ['ATTEMPT_INTERNAL_SERVICE_TOKEN', 'INTERNAL_SERVICE_TOKEN']),
    gradingWaitMs: from.integer('ATTEMPT_GRADING_WAIT_MS'),
    overdueGraceSeconds: from.integer('ATTEMPT_OVERDUE_GRACE_SECONDS'),
    outbox: {
      maxAttempts: from.integer('ATTEMPT_OUTBOX_MAX_ATTEMPTS'),
      retryBaseMs: from.integer('ATTEMPT_OUTBOX_RETRY_BASE_MS'),
    },
    startBudgetMs: from.integer('START_BUDGET_MS'),
  };
}

export interface AuthSettings {
  /** Good for a signer where the auth service is served; elsewhere `secret` may be empty. */
  jwt: { secret: string; previousSecrets: readonly string[]; issuer: string };
  bcrypt: { passwordCost: number; tokenCost: number };
  /** Code points. */
  passwordMinLength: number;
  selfRegisterRoles: ReadonlySet<Role>;
  /** Everybody's who registers. */
  defaultOrganization: { id: string; name: string };
  /** IP addresses and networks in CIDR notation. */
  trustedProxies: readonly string[];
}

/** Without secrets only where the auth service is not `served`. */
export function readAuth(from: VariableReader, { served }: { served: boolean }): AuthSettings {
  return {
    jwt: {
      secret: from.secret('AUTH_JWT_SECRET', served),
      previousSecrets: from.secrets('AUTH_JWT_PREVIOUS_SECRETS', served),
      issuer: from.text('AUTH_JWT_ISSUER'),
    },
    bcrypt: {
      passwordCost: from.integer('AUTH_BCRYPT_COST'),
      tokenCost: from.integer('AUTH_REFRESH_BCRYPT_COST'),
    },
    passwordMinLength: from.integer('AUTH_PASSWORD_MIN_LENGTH'),
    selfRegisterRoles: from.list('AUTH_SELF_REGISTER_ROLES', SELF_REGISTER_ROLES),
    defaultOrganization: {
      id: from.text('AUTH_DEFAULT_ORGANIZATION_ID'),
      name: from.text('AUTH_DEFAULT_ORGANIZATION_NAME'),
    },
    trustedProxies: from.addresses('TRUSTED_PROXIES'),
  };
}

export interface ClassifierSettings {
  /** May be none that we know. */
  provider: string;
  model: string | null;
  /** null = unset; empty = set to nothing, which is no address, not the provider's official one. */
  baseUrl: string | null;
  /** Origins beside the official ones to which a key may go. */
  allowedOrigins: readonly string[];
  /** Keys by the variable that holds them; what is unset is not there, what is set to nothing is empty and no key. */
  keys: Readonly<Partial<Record<KeyVariable, string>>>;
  timeoutMs: number;
  maxRetries: number;
  circuit: { failures: number; cooldownMs: number };
  streaming: boolean;
  batchConcurrency: number;
  worker: {
    enabled: boolean;
    concurrency: number;
    pollIntervalMs: number;
    leaseMs: number;
    maxAttempts: number;
    retryBaseDelayMs: number;
  };
  /** Generated questions are paid for. */
  settles: boolean;
  settlementWorkerEnabled: boolean;
}

const KEY_VARIABLES: readonly KeyVariable[] = [
  GENERIC_KEY_VARIABLE,
  ...Object.values(KEY_VARIABLE).filter((name) => name !== null),
];

export function readClassifier(from: VariableReader): ClassifierSettings {
  const keys: Partial<Record<KeyVariable, string>> = {};
  for (const name of KEY_VARIABLES) {
    const key = from.token(name);
    if (from.isSet(name)) keys[name] = key ?? '';
  }
  // Both are read: a fault of the one that is beaten is a fault all the same.
  const timeoutMs = from.integer('AI_PROVIDER_TIMEOUT_MS');
  const isOn = (name: Parameters<VariableReader['word']>[0]) => from.word(name, ['0', '1']) === '1';
  return {
    provider: from.text('AI_CLASSIFIER_PROVIDER'),
    model: from.optionalText('AI_CLASSIFIER_MODEL'),
    baseUrl: from.neighbour('AI_CLASSIFIER_BASE_URL') ?? (from.isSet('AI_CLASSIFIER_BASE_URL') ? '' : null),
    allowedOrigins: from.origins('AI_CLASSIFIER_ALLOWED_BASE_URLS'),
    keys,
    timeoutMs: from.optionalInteger('AI_CLASSIFIER_TIMEOUT_MS') ?? timeoutMs,
    maxRetries: from.integer('AI_CLASSIFIER_MAX_RETRIES'),
    circuit: {
      failures: from.integer('AI_CLASSIFIER_CIRCUIT_FAILURES'),
      cooldownMs: from.integer('AI_CLASSIFIER_CIRCUIT_COOLDOWN_MS'),
    },
    streaming: isOn('AI_CLASSIFIER_STREAMING'),
    batchConcurrency: from.integer('AI_CLASSIFIER_BATCH_CONCURRENCY'),
    worker: {
      enabled: isOn('AI_CLASSIFIER_WORKER_ENABLED'),
      concurrency: from.integer('AI_CLASSIFIER_WORKER_CONCURRENCY'),
      pollIntervalMs: from.integer('AI_CLASSIFIER_WORKER_POLL_INTERVAL_MS'),
      leaseMs: from.integer('AI_CLASSIFIER_WORKER_LEASE_MS'),
      maxAttempts: from.integer('AI_CLASSIFIER_WORKER_MAX_ATTEMPTS'),
      retryBaseDelayMs: from.integer('AI_CLASSIFIER_WORKER_RETRY_BASE_DELAY_MS'),
    },
    settles: isOn('AI_GENERATION_USAGE_WALLET_ENABLED'),
    settlementWorkerEnabled: isOn('AI_GENERATION_SETTLEMENT_WORKER_ENABLED'),
  };
}

export interface NotificationSettings {
  /** What each sender proves itself with, here as receiver and, for the attempt service, as caller. */
  senderTokens: Readonly<Record<Sender, string | undefined>>;
  channels: ReadonlySet<Channel>;
  /** Present where the `webhook` channel is on. */
  webhook: { url: string; secret: string; timeoutMs: number } | null;
  delivery: { maxAttempts: number; retryBaseMs: number; leaseMs: number };
}

const TOKEN_OF = {
  'admin-service': 'NOTIFICATION_TOKEN_ADMIN_SERVICE',
  'attempt-service': 'NOTIFICATION_TOKEN_ATTEMPT_SERVICE',
  'bff-service': 'NOTIFICATION_TOKEN_BFF_SERVICE',
  'classroom-service': 'NOTIFICATION_TOKEN_CLASSROOM_SERVICE',
  'exam-service': 'NOTIFICATION_TOKEN_EXAM_SERVICE',
} as const satisfies Record<Sender, NamesOf<'token'>>;

export function readSenderTokens(from: VariableReader): Record<Sender, string | undefined> {
  const tokenOf = (sender: Sender) =>
    firstToken(from, [TOKEN_OF[sender], 'NOTIFICATION_INTERNAL_SERVICE_TOKEN', 'INTERNAL_SERVICE_TOKEN']);
  return Object.fromEntries(SENDERS.map((sender) => [sender, tokenOf(sender)])) as Record<Sender, string | undefined>;
}

/** `needsToken`: a production front door must not open without a token for every sender. */
export function readNotification(
  from: VariableReader,
  senderTokens: NotificationSettings['senderTokens'],
  needsToken: boolean,
): NotificationSettings {
  const without = SENDERS.filter((sender) => senderTokens[sender] === undefined);
  if (needsToken && without.length > 0) {
    from.faults.push(
      `NOTIFICATION_INTERNAL_SERVICE_TOKEN: no token for ${without.join(', ')}, wanted this one, INTERNAL_SERVICE_TOKEN or one of their own`,
    );
  }
  const channels = from.list('NOTIFICATION_CHANNELS', CHANNELS);
  return {
    senderTokens,
    channels,
    webhook: readWebhook(from, channels.has('webhook')),
    delivery: {
      maxAttempts: from.integer('NOTIFICATION_DELIVERY_MAX_ATTEMPTS'),
      retryBaseMs: from.integer('NOTIFICATION_DELIVERY_RETRY_BASE_MS'),
      leaseMs: from.integer('NOTIFICATION_DELIVERY_LEASE_MS'),
    },
  };
}

function readWebhook(from: VariableReader, isOn: boolean): NotificationSettings['webhook'] {
  const url = from.webhook('NOTIFICATION_WEBHOOK_URL');
  const secret = from.token('NOTIFICATION_WEBHOOK_SECRET');
  const timeoutMs = from.integer('NOTIFICATION_WEBHOOK_TIMEOUT_MS');
  if (!isOn) return null;
  if (url === null) from.faults.push('NOTIFICATION_WEBHOOK_URL: not set, wanted by the webhook channel');
  if (secret === undefined) from.faults.push('NOTIFICATION_WEBHOOK_SECRET: not set, wanted by the webhook channel');
  return { url: url ?? '', secret: secret ?? '', timeoutMs };
}

/** Another service: base URL without a final slash; without a token calls carry none. */
export interface Neighbour {
  url: string;
  token: string | undefined;
}

/** null = not configured. */
export interface Neighbours {
  notification: Neighbour | null;
  profile: Neighbour | null;
  analytics: Neighbour | null;
  audit: Neighbour | null;
  questionBank: Neighbour | null;
  usage: Neighbour | null;
  wallet: Neighbour | null;
}

/** Each with the token of ours that it knows: the notification service knows its senders apart. */
export function readNeighbours(
  from: VariableReader,
  { internal, notification }: { internal: string | undefined; notification: string | undefined },
): Neighbours {
  const read = (name: NamesOf<'neighbour'>, alias: NamesOf<'neighbour'>, token: string | undefined) => {
    const [first, second] = [from.neighbour(name), from.neighbour(alias)];
    const url = from.isSet(name) ? first : second;
    return url === null ? null : { url, token };
  };
  return {
    notification: read('NOTIFICATION_SERVICE_URL', 'NOTIFICATION_SERVICE_BASE_URL', notification),
    profile: read('PROFILE_SERVICE_URL', 'PROFILE_SERVICE_BASE_URL', internal),
    analytics: read('ANALYTICS_SERVICE_URL', 'ANALYTICS_SERVICE_BASE_URL', internal),
    audit: read('AUDIT_SERVICE_URL', 'AUDIT_SERVICE_BASE_URL', internal),
    questionBank: read('QUESTION_BANK_SERVICE_URL', 'QUESTION_BANK_SERVICE_BASE_URL', internal),
    usage: read('USAGE_SERVICE_URL', 'USAGE_SERVICE_BASE_URL', internal),
    wallet: read('WALLET_SERVICE_URL', 'WALLET_SERVICE_BASE_URL', internal),
  };
}

/** The first of these that is set decides, even by being empty: an empty token is no token, not the next one. */
function firstToken(from: VariableReader, names: readonly NamesOf<'token'>[]): string | undefined {
  const values = names.map((name) => ({ set: from.isSet(name), value: from.token(name) }));
  return values.find((token) => token.set)?.value;
}
