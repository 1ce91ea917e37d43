import { DEVELOPMENT_DEFAULTS } from '#infra/config/variable.ts';

/** Every service that examhall calls. Each is also the first part of the path of its stand-in. */
export const NEIGHBOUR_NAMES = [
  'profile',
  'analytics',
  'audit',
  'question-bank',
  'usage',
  'wallet',
  'notification',
  'models',
  'webhook',
] as const;
export type NeighbourName = (typeof NEIGHBOUR_NAMES)[number];

/**
 * Secret with which a cluster signs deliveries to the stand-in. Production refuses a key of fewer than 24 bytes, so that this public
 * one cannot reach it.
 */
export const STAND_IN_WEBHOOK_SECRET = `whsec_${Buffer.from('stand-in-webhook').toString('base64')}`;

/** Login that the mail server requires. The password is public, because the server listens on the loopback address alone. */
export const STAND_IN_MAIL_LOGIN = { user: 'examhall', password: 'stand-in-mail' } as const;

/** Returns the variables that point a cluster at the stand-ins of this URL. */
export function standInEnvironment(url: string): Record<string, string> {
  return {
    PROFILE_SERVICE_URL: `${url}/profile`,
    ANALYTICS_SERVICE_URL: `${url}/analytics`,
    AUDIT_SERVICE_URL: `${url}/audit`,
    QUESTION_BANK_SERVICE_URL: `${url}/question-bank`,
    USAGE_SERVICE_URL: `${url}/usage`,
    WALLET_SERVICE_URL: `${url}/wallet`,
    AI_GENERATION_USAGE_WALLET_ENABLED: '1',
    AI_CLASSIFIER_PROVIDER: 'local',
    AI_CLASSIFIER_MODEL: 'stand-in',
    AI_CLASSIFIER_BASE_URL: `${url}/models/v1`,
    NOTIFICATION_CHANNELS: 'webhook',
    NOTIFICATION_WEBHOOK_URL: `${url}/webhook`,
    NOTIFICATION_WEBHOOK_SECRET: STAND_IN_WEBHOOK_SECRET,
  };
}

/** Returns the variables that send e-mails to the mail server of the stand-ins. By default its port is the one after theirs. */
export function mailEnvironment(url: string, port = Number(new URL(url).port) + 1): Record<string, string> {
  return {
    NOTIFICATION_CHANNELS: 'webhook,email',
    NOTIFICATION_EMAIL_HOST: '127.0.0.1',
    NOTIFICATION_EMAIL_PORT: String(port),
    NOTIFICATION_EMAIL_TLS: 'none',
    NOTIFICATION_EMAIL_USER: STAND_IN_MAIL_LOGIN.user,
    NOTIFICATION_EMAIL_PASSWORD: STAND_IN_MAIL_LOGIN.password,
    NOTIFICATION_EMAIL_FROM: 'khong-tra-loi@truong.example',
  };
}

/** Returns the variable that names the intake of the stand-ins. A cluster that serves `notification` needs it only to test faults. */
export const intakeEnvironment = (url: string) => ({ NOTIFICATION_SERVICE_URL: `${url}/notification` });

/** Returns the tokens that a cluster with this environment sends, by neighbour and sender; undefined: it sends none. */
export function tokensSentBy(env: NodeJS.ProcessEnv): (neighbour: NeighbourName, sender: string) => string | undefined {
  const internal = env.INTERNAL_SERVICE_TOKEN ?? DEVELOPMENT_DEFAULTS.INTERNAL_SERVICE_TOKEN;
  return (neighbour, sender) => {
    if (neighbour !== 'notification') return internal;
    const own = env[`NOTIFICATION_TOKEN_${sender.replaceAll('-', '_').toUpperCase()}`];
    return own ?? env.NOTIFICATION_INTERNAL_SERVICE_TOKEN ?? internal;
  };
}
