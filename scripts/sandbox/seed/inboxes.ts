import { asStudent, countRequests } from '#scripts/sandbox/gateway.ts';
import type { Student } from '#scripts/sandbox/school/school.ts';
import { type Classroom, runtimeOf, type SeedExam } from '#scripts/sandbox/school/school.ts';
import { inParallel, runPart } from '#scripts/start/progress.ts';
import type { Identity, Preferences } from '../../../clients/typescript/src/index.ts';
import type { Filling } from './people.ts';

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
  await runPart(
    progress,
    'preferences',
    choosy,
    (student) => setPreferences(filling, student, wishesOf(students.indexOf(student)) ?? {}),
    AT_ONCE,
  );
  await runPart(progress, 'announcements', school.exams, (exam) => announce(filling, exam), AT_ONCE);
  await runPart(progress, 'alerts to parents', school.classes, (room) => alertParents(filling, room), AT_ONCE);
}

/** The preferences that a student sets; null for most. */
function wishesOf(index: number): Partial<Preferences> | null {
  if (index % MUTES_EVERY === MUTES_EVERY - 1) return { mutedUntil: MUTED_UNTIL };
  return index % DISABLES_EVERY === DISABLES_EVERY - 1 ? { enabledTypes: { [ANNOUNCED]: false } } : null;
}

async function setPreferences({ gateway, add }: Filling, student: Student, wishes: Partial<Preferences>) {
  const [client, as] = [gateway.client('preferences'), asStudent(student)];
  const present = await client.readPreferences({ as });
  const isSet = present.mutedUntil === (wishes.mutedUntil ?? null);
  const isChosen = (wishes.enabledTypes?.[ANNOUNCED] ?? null) === (present.enabledTypes[ANNOUNCED] ?? null);
  if (isSet && isChosen) return;
  await client.changePreferences({ as, body: wishes });
  add('preferences');
}

/** Announces an exam to its class, once for all runs. */
async function announce({ gateway, school, add }: Filling, exam: SeedExam): Promise<void> {
  const { organizationId, students } = exam.classroom;
  const about = { entity: 'Exam', entityId: exam.id, organizationId };
  const as: Identity = { id: school.adminId, role: 'ADMIN', organizationId };
  const requests = countRequests();
  const { created } = await gateway.client('announce').createBatch({
    as,
    observe: requests.observe,
    body: {
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
    },
  });
  if (requests.lastStatus() === 201) add('announcements', created);
}

async function alertParents({ gateway, add }: Filling, { id, teacher, organizationId, students }: Classroom) {
  const as: Identity = { id: teacher.id, role: 'TEACHER', organizationId };
  const weak = students.filter(({ parentIds }) => parentIds.length > 0).slice(0, WEAK_STUDENTS);
  await inParallel(weak, AT_ONCE, async ({ id: studentId, fullName: studentName, parentIds }) => {
    const { created, replayed } = await gateway.client('weak topic').createWeakTopicAlert({
      as,
      body: {
        sourceService: 'analytics-service',
        sourceEventId: `seed-${id}-weak-${studentId}`,
        studentId,
        studentName,
        topic: TOPIC,
        parentIds,
      },
    });
    if (!replayed) add('alerts', created);
  });
}
