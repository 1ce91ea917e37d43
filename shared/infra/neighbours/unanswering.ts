import type { Config } from '#infra/config/config.ts';
import type { CallObserver, Neighbours } from '#infra/config/settings.ts';
import type { Now } from '#shared/kernel/time.ts';

/** Returns the configuration whose neighbours and channels also pass the end of each call to the observer of their name. */
export function withObservers(config: Config, observerOf: (neighbour: string) => CallObserver): Config {
  const entries = Object.entries(config.neighbours).map(([name, neighbour]) => [
    name,
    neighbour === null ? null : { ...neighbour, called: both(neighbour.called, observerOf(labelOf(name))) },
  ]);
  const watched = <Settings extends { called?: CallObserver }>(name: string, settings: Settings | null) =>
    settings === null ? null : { ...settings, called: both(settings.called, observerOf(name)) };
  const { webhook, email, webpush } = config.notification;
  return {
    ...config,
    neighbours: Object.fromEntries(entries) as Neighbours,
    notification: {
      ...config.notification,
      webhook: watched('webhook', webhook),
      email: watched('email', email),
      webpush: watched('webpush', webpush),
    },
  };
}

function both(first: CallObserver | undefined, second: CallObserver): CallObserver {
  if (first === undefined) return second;
  return (outcome, seconds) => {
    first(outcome, seconds);
    second(outcome, seconds);
  };
}

/** Names of services are snake_case, as values of labels are: `questionBank` becomes `question_bank`. */
function labelOf(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** A service whose last call from one process failed: no reply in time, or a status of 500 and above. */
export interface Unanswering {
  name: string;
  /** First failed call after the last answer. */
  since: Date;
  /** Last failed call. */
  lastAt: Date;
}

/** The calls of one process to other services. */
export interface WatchedAnswers {
  /** The configuration whose calls are watched. */
  config: Config;
  /** Returns the services whose last call failed, sorted by name. */
  unanswering(): Unanswering[];
}

/** Watches which services answer the calls of this process. Any status below 500 is an answer. */
export function watchAnswers(given: Config, now: Now): WatchedAnswers {
  const failed = new Map<string, Unanswering>();
  const config = withObservers(given, (name) => (outcome) => {
    if (outcome === 'ok' || outcome === 'refused') {
      failed.delete(name);
      return;
    }
    const lastAt = new Date(now());
    failed.set(name, { name, since: failed.get(name)?.since ?? lastAt, lastAt });
  });
  return { config, unanswering: () => [...failed.values()].sort((a, b) => a.name.localeCompare(b.name)) };
}
