import type { Filter } from 'mongodb';
import { literalPattern } from '#shared/notification/notification.ts';
import type { NotificationRow } from './collections.ts';
import type { PlaceFilter } from './look.ts';

export type ListFilter = 'ALL' | 'UNREAD' | 'READ' | 'SUPPORT';

/** Which notifications a list shows; null does not narrow. */
export interface Wanted {
  /** null: of all users. */
  userId: string | null;
  organizationId: string | null;
  filter: ListFilter;
  /** Literal text in title or content, whatever its case. */
  q: string | null;
}

/** The selection in MongoDB's words. */
export interface Selection {
  filter: Filter<NotificationRow>;
  /** The index that serves it newest first, where the planner has to be told. */
  hint?: string;
}

export function selectionOf(wanted: Wanted, place: PlaceFilter): Selection {
  return {
    filter: {
      ...(wanted.userId === null ? {} : { userId: wanted.userId }),
      place,
      ...(wanted.organizationId === null ? {} : { organizationId: wanted.organizationId }),
      ...PARTS[wanted.filter],
      ...(wanted.q === null ? {} : textFilter(wanted.q)),
    },
    ...(wanted.userId === null ? { hint: OF_ALL[wanted.filter] } : {}),
  };
}

/** Unread rows of one user, or of all. */
export function unreadSelection(userId: string | null, place: PlaceFilter): Selection {
  return selectionOf({ userId, organizationId: null, filter: 'UNREAD', q: null }, place);
}

const PARTS = {
  ALL: {},
  UNREAD: { isRead: false },
  READ: { isRead: true },
  SUPPORT: { isSupport: true },
} as const satisfies Record<ListFilter, Filter<NotificationRow>>;

/**
 * Of all users: a planner that tries its indexes out while there are few rows may keep the wrong one for many. One user's rows are
 * found by any index that begins with the user, and some servers read the whole of an index that they are told to use.
 */
const OF_ALL = { ALL: 'newest', UNREAD: 'newest_unread', READ: 'newest_unread', SUPPORT: 'newest_support' } as const;

function textFilter(q: string): Filter<NotificationRow> {
  const text = { $regex: literalPattern(q), $options: 'i' };
  return { $or: [{ title: text }, { content: text }] };
}
