import type { VariableReader } from './variable-reader.ts';
import type { NamesOf } from './variables.ts';

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
