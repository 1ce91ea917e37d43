/** Services that may send here, by the name in `X-Internal-Service`. */
export const SENDERS = [
  'admin-service',
  'attempt-service',
  'bff-service',
  'classroom-service',
  'exam-service',
] as const;
export type Sender = (typeof SENDERS)[number];

/** Producers of events; they may also create notifications, snapshots and delivery attempts. */
export const PRODUCERS: readonly Sender[] = ['admin-service', 'attempt-service', 'classroom-service', 'exam-service'];

/** The only sender of weak topics. */
export const WEAK_TOPIC_SENDER: Sender = 'bff-service';
