/** What a client may post. Its TIMEOUT submits an attempt that is still open. */
export const CLIENT_EVENT_TYPES = [
  'QUESTION_VIEW',
  'TAB_HIDDEN',
  'FOCUS_RETURNED',
  'NETWORK_RETRY',
  'TIMEOUT',
] as const;
export type ClientEventType = (typeof CLIENT_EVENT_TYPES)[number];

export const EVENT_TYPES = ['START', 'SAVE_ANSWER', 'SUBMIT', ...CLIENT_EVENT_TYPES, 'ESSAY_GRADE_HANDOFF'] as const;
export type EventType = (typeof EVENT_TYPES)[number];
