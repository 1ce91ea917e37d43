import t from 'tap';
import { assertMayFollow, isFinal, mayFollow, statesBefore, type Transitions } from './transitions.ts';

type Light = 'red' | 'green' | 'broken';
const LIGHTS: Transitions<Light> = { red: ['green', 'broken'], green: ['red', 'broken'], broken: [] };

t.test('the table decides', async (t) => {
  t.ok(mayFollow(LIGHTS, 'red', 'green'));
  t.notOk(mayFollow(LIGHTS, 'red', 'red'), 'staying is no transition');
  t.notOk(mayFollow(LIGHTS, 'broken', 'red'));
  t.strictSame(statesBefore(LIGHTS, 'broken'), ['red', 'green']);
  t.ok(isFinal(LIGHTS, 'broken'));
  t.notOk(isFinal(LIGHTS, 'red'));
});

t.test('a forbidden change is a bug', async (t) => {
  t.doesNotThrow(() => assertMayFollow(LIGHTS, 'green', 'red'));
  t.throws(() => assertMayFollow(LIGHTS, 'broken', 'green'), { message: 'broken may not become green' });
});
