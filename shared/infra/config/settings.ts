import {
  GENERIC_KEY_VARIABLE,
  KEY_VARIABLE,
  type KeyVariable,
  PLACED_PROVIDERS,
} from '#shared/classifier/provider/names.ts';
import type { ProviderPlace, TrustedAddresses } from '#shared/classifier/provider/target.ts';
import type { Secrets } from '#shared/kernel/secret.ts';
import { SENDERS, type Sender } from '#shared/notification/event.ts';
import {
  type EmailSettings,
  readEmail,
  readUnsubscribe,
  readWebhook,
  readWebPush,
  type UnsubscribeSettings,
  type WebhookSettings,
  type WebPushSettings,
} from './channel-settings.ts';
import type { ValueOf } from './plain-values.ts';
import type { Variable } from './variable.ts';
import type { VariableReader } from './variable-reader.ts';
import { type NamesOf, VARIABLES, type VariableName } from './variables.ts';

type Rows = typeof VARIABLES;
type PlacedName = {
  [Name in VariableName]: Rows[Name]['into'] extends string ? Name : never;
}[VariableName];
/** Each path with the type of its value. */
type Pair = { [Name in PlacedName]: [path: Rows[Name]['into'] & string, value: ValueOf<Name>] }[PlacedName];

type HeadOf<Path extends string> = Path extends `${infer Head}.${string}` ? Head : Path;
type Under<Some, Head extends string> = Some extends [`${Head}.${infer Rest}`, infer Value] ? [Rest, Value] : never;
type At<Some, Head extends string> = Some extends [Head, infer Value] ? Value : never;
type Tree<Some extends [string, unknown]> = {
  [Head in HeadOf<Some[0]>]: [Under<Some, Head>] extends [never] ? At<Some, Head> : Tree<Under<Some, Head>>;
};

/** The part of a configuration in which each value comes from one variable, at the path of its row. */
export type Placed = Tree<Pair>;

/** Reads every variable whose row names a path. */
export function readPlaced(from: VariableReader): Placed {
  const root: Record<string, unknown> = {};
  for (const name of Object.keys(VARIABLES) as PlacedName[]) {
    const { into }: Variable = VARIABLES[name];
    if (into === null) continue;
    const folders = into.split('.');
    const last = folders.pop() ?? into;
    let place = root;
    for (const folder of folders) {
      place[folder] ??= {};
      place = place[folder] as Record<string, unknown>;
    }
    place[last] = from.value(name);
  }
  return root as Placed;
}

/** The parts of a configuration of which a value comes from several variables, and their readers. */

export type AttemptSettings = Placed['attempt'] & {
  /** Token that start, release and handoff require. */
  receiverToken: Secrets | undefined;
  /** Time limit of the transaction of a start, retries included. */
  startBudgetMs: number;
};

/** `secret` is valid for a signer if the auth service is served; otherwise it may be empty. */
export type AuthSettings = Placed['auth'] & { jwt: { secret: string; previousSecrets: readonly string[] } };

export type NotificationSettings = Placed['notification'] & {
  /** The accepted tokens of each sender. The attempt service and the auth service send the first of their own. */
  senderTokens: SenderTokens;
  /** Present if the `webhook` channel is enabled. */
  webhook: Watched<WebhookSettings> | null;
  /** Present if the `email` channel is enabled. */
  email: Watched<EmailSettings> | null;
  /** Present if there is a key, so that pages can subscribe before the `webpush` channel is enabled. */
  webpush: Watched<WebPushSettings> | null;
  /** Signs the links by which users turn e-mails off; null: e-mails have no such link. */
  unsubscribe: UnsubscribeSettings | null;
};

const TOKEN_OF = {
  'admin-service': 'NOTIFICATION_TOKEN_ADMIN_SERVICE',
  'attempt-service': 'NOTIFICATION_TOKEN_ATTEMPT_SERVICE',
  'auth-service': 'NOTIFICATION_TOKEN_AUTH_SERVICE',
  'bff-service': 'NOTIFICATION_TOKEN_BFF_SERVICE',
  'classroom-service': 'NOTIFICATION_TOKEN_CLASSROOM_SERVICE',
  'exam-service': 'NOTIFICATION_TOKEN_EXAM_SERVICE',
} as const satisfies Record<Sender, NamesOf<'token'>>;

type SenderTokens = Readonly<Record<Sender, readonly [string, ...string[]] | undefined>>;

export function readSenderTokens(from: VariableReader): SenderTokens {
  const tokensOf = (sender: Sender) =>
    from.tokens(TOKEN_OF[sender], 'NOTIFICATION_INTERNAL_SERVICE_TOKEN', 'INTERNAL_SERVICE_TOKEN');
  return Object.fromEntries(SENDERS.map((sender) => [sender, tokensOf(sender)])) as SenderTokens;
}

/** Reads the settings of the notification service. If `needsToken` (a production front door), a sender without a token is a fault. */
export function readNotification(
  from: VariableReader,
  placed: Placed['notification'],
  senderTokens: NotificationSettings['senderTokens'],
  { needsToken, hasProfile }: { needsToken: boolean; hasProfile: boolean },
): NotificationSettings {
  const without = SENDERS.filter((sender) => senderTokens[sender] === undefined);
  if (needsToken && without.length > 0) {
    from.faults.push(
      `NOTIFICATION_INTERNAL_SERVICE_TOKEN: no token for ${without.join(', ')}, wanted this one, INTERNAL_SERVICE_TOKEN or one of their own`,
    );
  }
  const { channels } = placed;
  return {
    ...placed,
    senderTokens,
    webhook: readWebhook(from, channels.has('webhook')),
    email: readEmail(from, { isOn: channels.has('email'), hasProfile }),
    unsubscribe: readUnsubscribe(from),
    webpush: readWebPush(from, channels.has('webpush')),
  };
}

/** Another service: its base URL without a final slash, and the token that calls send, if there is one. */
export interface Neighbour {
  url: string;
  token: string | undefined;
  /** Receives the end of each call; absent in a process without metrics. */
  called?: CallObserver;
}

/** How a call of another service ended. `refused`: 3xx or 4xx. `failed`: 5xx. `unanswered`: no complete reply in time. */
export type CallOutcome = 'ok' | 'refused' | 'failed' | 'unanswered';

/** Receives the end of a call and its time in seconds. Never throws. */
export type CallObserver = (outcome: CallOutcome, seconds: number) => void;

/** The settings of calls whose ends are observed; `called` is absent in a process without metrics. */
export type Watched<Settings> = Settings & { called?: CallObserver };

/** The services that examhall calls; null if not configured. */
export interface Neighbours {
  notification: Neighbour | null;
  profile: Neighbour | null;
  analytics: Neighbour | null;
  audit: Neighbour | null;
  questionBank: Neighbour | null;
  usage: Neighbour | null;
  wallet: Neighbour | null;
}

/** Reads the neighbours. The notification service gets its own token, because it distinguishes its senders. */
export function readNeighbours(
  from: VariableReader,
  { internal, notification }: { internal: string | undefined; notification: string | undefined },
): Neighbours {
  const read = (name: NamesOf<'neighbour'>, alias: NamesOf<'neighbour'>, token: string | undefined) => {
    const [first, second] = [from.neighbour(name), from.neighbour(alias)];
    const url = from.isSet(name) ? first : second;
    if (url?.startsWith('http:')) from.plainHttp.add(from.isSet(name) ? name : alias);
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

export type ClassifierSettings = Placed['classifier'] & {
  /** null: unset, so the provider's official URL applies. Empty: set to the empty string, so there is no address at all. */
  baseUrl: string | null;
  places: TrustedAddresses['places'];
  /** Further origins to which the key of any provider may be sent. */
  allowedOrigins: readonly string[];
  /** Keys by their variable. An unset variable is absent. A variable set to the empty string is empty and means "no key". */
  keys: Readonly<Partial<Record<KeyVariable, string>>>;
  timeoutMs: number;
};

const KEY_VARIABLES: readonly KeyVariable[] = [
  GENERIC_KEY_VARIABLE,
  ...Object.values(KEY_VARIABLE).filter((name) => name !== null),
];

export function readClassifier(from: VariableReader, placed: Placed['classifier']): ClassifierSettings {
  const keys: Partial<Record<KeyVariable, string>> = {};
  for (const name of KEY_VARIABLES) {
    const key = from.key(name);
    if (from.isSet(name)) keys[name] = key ?? '';
  }
  // Read both timeouts, because a fault in the overridden one is a fault as well.
  const timeoutMs = from.value('AI_PROVIDER_TIMEOUT_MS');
  const baseUrl = from.neighbour('AI_CLASSIFIER_BASE_URL') ?? (from.isSet('AI_CLASSIFIER_BASE_URL') ? '' : null);
  if (baseUrl?.startsWith('http:')) from.plainHttp.add('AI_CLASSIFIER_BASE_URL');
  const allowedOrigins = from.origins('AI_CLASSIFIER_ALLOWED_BASE_URLS');
  if (allowedOrigins.some((origin) => origin.startsWith('http:')))
    from.plainHttp.add('AI_CLASSIFIER_ALLOWED_BASE_URLS');
  return {
    ...placed,
    baseUrl,
    places: Object.fromEntries(PLACED_PROVIDERS.map((provider) => [provider, placeOf(from, provider)])),
    allowedOrigins,
    keys,
    timeoutMs: from.value('AI_CLASSIFIER_TIMEOUT_MS') ?? timeoutMs,
  };
}

function placeOf(from: VariableReader, provider: (typeof PLACED_PROVIDERS)[number]): ProviderPlace {
  const prefix = provider.toUpperCase() as Uppercase<typeof provider>;
  const baseUrl = from.neighbour(`${prefix}_BASE_URL`);
  if (baseUrl?.startsWith('http:')) from.plainHttp.add(`${prefix}_BASE_URL`);
  return { baseUrl, model: from.value(`${prefix}_MODEL`) };
}
