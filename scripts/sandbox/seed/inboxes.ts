import { type Caller, dataOf } from '#scripts/sandbox/gateway.ts';
import { inParallel, part } from '#scripts/sandbox/parts.ts';
import { type Classroom, runtimeOf, type SeedExam } from '#scripts/sandbox/school/school.ts';
import type { Student } from '#scripts/sandbox/school/students.ts';
import type {
  BatchReply,
  BatchRequest,
  IntakeReply,
  Preferences,
  WeakTopicAlertRequest,
} from '#shared/generated/notification.ts';
import type { Filling } from './fill.ts';

const ANNOUNCED = 'EXAM_ASSIGNED';
/** Every tenth student has switched announcements off, and every fifteenth has muted everything. */
const DISABLES_EVERY = 10;
const MUTES_EVERY = 15;
const MUTED_UNTIL = '2099-01-01T00:00:00.000Z';
/** Students of a class whose parents are alerted to a weak topic. */
const WEAK_STUDENTS = 2;
const TOPIC = 'Khảo sát hàm số';
const AT_ONCE = 8;

/** Sets preferences, announces the exams, and alerts parents to weak topics. */
export async function fillInboxes(filling: Filling): Promise<void> {
  const { served, note, progress, school } = filling;
  if (!served.has('notification')) {
    note('The cluster serves no `notification`, so the school has no inboxes.');
    return;
  }
  const students = school.classes.flatMap((room) => room.students);
  const choosy = students.filter((_, index) => wishesOf(index) !== null);
  await part(
    progress,
    'preferences',
    choosy,
    (student) => setPreferences(filling, student, wishesOf(students.indexOf(student)) ?? {}),
    AT_ONCE,
  );
  await part(progress, 'announcements', school.exams, (exam) => announce(filling, exam), AT_ONCE);
  await part(progress, 'alerts to parents', school.classes, (room) => alertParents(filling, room), AT_ONCE);
}

/** The preferences that a student sets; null for most. */
function wishesOf(index: number): Partial<Preferences> | null {
  if (index % MUTES_EVERY === MUTES_EVERY - 1) return { mutedUntil: MUTED_UNTIL };
  return index % DISABLES_EVERY === DISABLES_EVERY - 1 ? { enabledTypes: { [ANNOUNCED]: false } } : null;
}

const PREFERENCES = '/v1/notifications/preferences';

async function setPreferences({ gateway, add }: Filling, { id }: Student, wishes: Partial<Preferences>) {
  const caller: Caller = { id, role: 'STUDENT' };
  const read = await gateway.send({ name: 'preferences', method: 'GET', path: PREFERENCES, caller });
  const present = dataOf<Preferences>('preferences', read, 200);
  const isSet = present.mutedUntil === (wishes.mutedUntil ?? null);
  const isChosen = (wishes.enabledTypes?.[ANNOUNCED] ?? null) === (present.enabledTypes[ANNOUNCED] ?? null);
  if (isSet && isChosen) return;
  const reply = await gateway.send({ name: 'preferences', method: 'PATCH', path: PREFERENCES, caller, body: wishes });
  dataOf('preferences', reply, 200);
  add('preferences');
}

/** Announces an exam to its class, once for all runs. */
async function announce({ gateway, school, add }: Filling, exam: SeedExam): Promise<void> {
  const { organizationId, students } = exam.classroom;
  const about = { entity: 'Exam', entityId: exam.id, organizationId };
  const body: BatchRequest = {
    event: {
      sourceService: 'exam-service',
      sourceEventId: `seed-${exam.id}-assigned`,
      type: 'exam.assigned.notification.v1',
      actorId: runtimeOf(exam).createdById ?? '',
      ...about,
    },
    notifications: students.map(({ id }) => ({
      userId: id,
      type: ANNOUNCED,
      title: 'Bạn có bài kiểm tra mới',
      content: `Giáo viên đã giao "${exam.title}".`,
      ...about,
    })),
  };
  const caller: Caller = { id: school.adminId, role: 'ADMIN', organizationId };
  const path = '/v1/notifications/batch';
  const reply = await gateway.send({ name: 'announce', method: 'POST', path, caller, body });
  const { created } = dataOf<BatchReply>('announce', reply, 200, 201);
  if (reply.status === 201) add('announcements', created);
}

async function alertParents({ gateway, add }: Filling, room: Classroom): Promise<void> {
  const { teacher, organizationId } = room;
  const caller: Caller = { id: teacher.id, role: 'TEACHER', organizationId };
  const weak = room.students.filter(({ parentIds }) => parentIds.length > 0).slice(0, WEAK_STUDENTS);
  await inParallel(weak, WEAK_STUDENTS, async ({ id, fullName, parentIds }) => {
    const body: WeakTopicAlertRequest = {
      sourceService: 'analytics-service',
      sourceEventId: `seed-${room.id}-weak-${id}`,
      studentId: id,
      studentName: fullName,
      topic: TOPIC,
      parentIds,
    };
    const path = '/v1/alerts/weak-topic';
    const reply = await gateway.send({ name: 'weak topic', method: 'POST', path, caller, body });
    const { created } = dataOf<IntakeReply>('weak topic', reply, 200, 201);
    if (reply.status === 201) add('alerts', created);
  });
}
