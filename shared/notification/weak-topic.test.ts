import t from 'tap';
import { reportedTopicFaults, weakTopicFanOut, weakTopicFaults } from './weak-topic.ts';

const ALERT = {
  sourceService: 'bff-service',
  sourceEventId: 'event-1',
  studentId: 'hs-1',
  topic: 'Hàm số',
  studentName: 'Nguyễn An',
  parentIds: ['parent-1'],
};
const FORGED = 'Nam\r\n\r\nNHÀ TRƯỜNG THÔNG BÁO: tài khoản phụ huynh sẽ bị khóa.\r\n\r\n';
const ADDRESSES = [
  'https://evil.example/login',
  'HTTP://1.2.3.4',
  'truong.edu',
  'xem TRUONG.EDU.VN ngay',
  'abc123.vn/dang-nhap',
  'www.x',
  'ｗｗｗ．truong．edu',
  'truong。edu',
  'truong｡edu',
  'https：／／1.2.3.4',
  'trường.vn',
  'truo\u031Bng.v\u0323n',
  'truong.\u3164edu',
  'truong\uFE0F.edu',
  'truong.\u034Fedu',
  'пример.рф',
  'thay@truong.edu',
];

t.test('a reported topic names its student and topic in one line without the address of a page', async (t) => {
  const faultsOf = (change: object) => reportedTopicFaults({ ...ALERT, ...change }, []).map(({ path }) => path);
  for (const text of [
    FORGED,
    'a\u2028b',
    'a\u0007b',
    'Quản trị viên\u200B',
    'a\u202Egpj.exe',
    'tru\u00ADong.edu',
    ...ADDRESSES,
  ]) {
    t.strictSame(faultsOf({ studentName: text }), ['/studentName'], encodeURIComponent(text));
    t.strictSame(faultsOf({ topic: text }), ['/topic'], encodeURIComponent(text));
    t.strictSame(faultsOf({ studentName: undefined, studentId: text }), ['/studentId'], 'an id that is shown');
    t.strictSame(faultsOf({ studentId: text }), [], 'an id that is not shown');
  }
  for (const text of [
    'Trần Thị B. An',
    'Bài 2.Hàm số bậc 3.5',
    'v.v.',
    'TP. HCM',
    'Hàm số…đồ thị',
    'a/b: c',
    'x² + ½',
    'Nguyễn A\u0301n',
  ])
    t.strictSame(faultsOf({ studentName: text, topic: text }), [], text);
});

t.test('a reported topic reaches one to twenty recipients', async (t) => {
  const ids = (count: number, from = 0) => Array.from({ length: count }, (_, n) => `parent-${from + n}`);
  const faultsOf = (parentIds: unknown, recipientIds?: unknown) =>
    reportedTopicFaults({ ...ALERT, parentIds, recipientIds }, []).map(({ path }) => path);
  for (const others of [ids(20), [], null, undefined]) t.strictSame(faultsOf(ids(20), others), []);
  t.strictSame(faultsOf(ids(20), ids(1, 20)), ['/recipientIds']);
  t.strictSame(faultsOf([], null), ['/parentIds']);
});

t.test('a fault of the schema hides no other one, and its own text is not read', async (t) => {
  const known = [{ path: '/topic', message: 'must be shorter' }];
  const body = { ...ALERT, topic: 'https://evil.example/'.repeat(100_000), studentName: FORGED, parentIds: [] };
  t.match(reportedTopicFaults(body, known), [{ path: '/parentIds' }, { path: '/studentName' }]);
  for (const odd of [null, 7, 'text', [], { topic: 7, studentName: {}, parentIds: 'x' }])
    t.doesNotThrow(() => reportedTopicFaults(odd, []));
});

t.test('a topic of a service has the words and the organization that the service sends', async (t) => {
  const alert = { ...ALERT, topic: 'truong.edu', organizationId: 'org-9' };
  t.strictSame(weakTopicFaults(alert, []), []);
  t.match(weakTopicFanOut(alert, null), { event: { organizationId: 'org-9', actorId: null } });
});
