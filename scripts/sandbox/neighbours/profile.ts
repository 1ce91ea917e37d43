import { ATTEMPT_SERVICE } from '#shared/attempt/notices.ts';
import { NOTIFICATION_SERVICE } from '#shared/notification/event.ts';
import { byId, closed, ok, refusal, type StandIn } from './stand-in.ts';

interface ProfileFacts {
  /** Ids of the parents, by the id of the student. */
  parents?: Readonly<Record<string, readonly string[]>>;
  /** E-mail addresses, names and languages, by the id of the user. */
  contacts?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /**
   * Status for a student whom it does not know. 404, the default, means that the student has no parents. With 403,
   * notices wait for another profile service and spend no attempt.
   */
  unknownStudent?: 403 | 404;
}

const ID = { type: 'string', pattern: '^[A-Za-z0-9._:@+|/=~{}-]{1,128}$' };

/** Opens a profile service that knows the parents of the students that it is taught. */
export function profileStandIn() {
  const parents = new Map<string, readonly string[]>();
  const contacts = new Map<string, Readonly<Record<string, string>>>();
  let unknownStudent: 403 | 404 = 404;

  return {
    facts: closed(
      {},
      {
        parents: byId({ type: 'array', maxItems: 100, items: ID }),
        contacts: byId(byId({ type: 'string' })),
        unknownStudent: { enum: [403, 404] },
      },
    ),
    learn(facts: ProfileFacts) {
      for (const [student, ids] of Object.entries(facts.parents ?? {})) parents.set(student, ids);
      for (const [user, contact] of Object.entries(facts.contacts ?? {})) contacts.set(user, contact);
      unknownStudent = facts.unknownStudent ?? unknownStudent;
    },
    routes: [
      {
        method: 'GET',
        path: /^\/v1\/users\/([^/]+)\/contacts$/,
        senders: [NOTIFICATION_SERVICE],
        answer(_call, [user = '']) {
          const contact = contacts.get(user);
          return contact === undefined ? refusal(404, 'USER_NOT_FOUND', 'no user has this id') : ok(contact);
        },
      },
      {
        method: 'GET',
        path: /^\/v1\/students\/([^/]+)\/parents$/,
        senders: [ATTEMPT_SERVICE],
        answer(_call, [student = '']) {
          const parentIds = parents.get(student);
          if (parentIds !== undefined) return ok({ parentIds });
          return unknownStudent === 404
            ? refusal(404, 'STUDENT_NOT_FOUND', 'no student has this id')
            : refusal(403, 'FORBIDDEN', 'the student belongs to another school');
        },
      },
    ],
    state: () => ({
      students: parents.size,
      unknownStudent,
      parents: Object.fromEntries(parents),
      contacts: Object.fromEntries(contacts),
    }),
    forget() {
      parents.clear();
      contacts.clear();
      unknownStudent = 404;
    },
  } satisfies StandIn;
}
