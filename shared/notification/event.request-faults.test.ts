import t from 'tap';
import { batchFaults, eventFaults } from './event.ts';
import { weakTopicFaults } from './weak-topic.ts';

const paths = (faults: readonly { path: string }[]) => faults.map(({ path }) => path);

t.test('event and weak-topic rules return their faults for a body of any shape', async (t) => {
  for (const body of [null, 1, 'text', [], {}]) {
    t.strictSame(eventFaults(body, []), []);
    t.strictSame(batchFaults(body, []), []);
  }
  t.strictSame(batchFaults({ event: [] }, []), []);
  t.strictSame(paths(eventFaults({ sourceService: 1 }, [])), ['/sourceEventId']);
  t.strictSame(paths(eventFaults({ sourceService: null, sourceEventId: 'e' }, [])), ['/sourceService']);
  t.strictSame(eventFaults({ sourceService: 'a', sourceEventId: {} }, []), []);
  t.strictSame(paths(batchFaults({ event: { sourceEventId: 'e' } }, [])), ['/event/sourceService']);
  for (const body of [null, []]) t.strictSame(weakTopicFaults(body, []), []);
  for (const body of [{}, { parentIds: [] }, { parentIds: null, recipientIds: [] }]) {
    t.strictSame(paths(weakTopicFaults(body, [])), ['/parentIds'], JSON.stringify(body));
  }
  t.strictSame(weakTopicFaults({ recipientIds: ['p'] }, []), []);
  t.strictSame(weakTopicFaults({ parentIds: 'p' }, []), [], 'the schema reports this fault');
});

t.test('event rules return no fault at the place of a schema fault', async (t) => {
  const known = [{ path: '/sourceEventId', message: 'must be string' }];
  t.strictSame(eventFaults({ sourceService: 'a', sourceEventId: null }, known), []);
});
