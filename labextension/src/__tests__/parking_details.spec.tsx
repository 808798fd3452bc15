import { cleanup, render, screen } from '@testing-library/react';
import * as React from 'react';

import { ParkingDetails } from '../parking_details';
import { ReleaseForm } from '../release_form';
import { ReleaseWish } from '../release_flow';
import { Kernel } from '../wire';
import { FakeModel } from './fake_model';
import { message, parkable, parked, policy, snapshot, trans } from './samples';

afterEach(cleanup);

describe('the details', () => {
  function details(row: Kernel, kernelId: string | null = null): string {
    const model = new FakeModel();
    model.say({ kernels: [row] });
    render(<ParkingDetails model={model} kernelId={kernelId} trans={trans} />);
    return screen.getByTestId('gpushare-parking-details').textContent ?? '';
  }

  it('say since when, how big, how long it takes, and who decided', () => {
    /* All that one may ask of a parked notebook. */
    const seen = details(parked({ held: 1, policy: policy({ source: 'owner', idle_timeout_s: 1800 }) }));
    expect(seen).toContain('In host memory6.1 GB');
    expect(seen).toMatch(/Parked since\d\d:\d\d/);
    expect(seen).toContain('To resume takesabout 2 s');
    expect(seen).toContain('Waiting1 cell');
    expect(seen).toContain('Parks by itselfafter 30 min without work');
    expect(seen).toContain('Decided byyou, for as long as the kernel lives');
    cleanup();
    expect(details(parked({ policy: policy({ source: 'pool', pool: 'class' }) }))).toContain(
      'Decided byset by pool class'
    );
  });

  it('say why it cannot be parked, what would help, and what is not guaranteed', () => {
    /* A refusal without a remedy is a dead end. */
    const seen = details(
      parkable({
        refusal: message('UVM', 'It uses managed memory.'),
        remedy: message('UVM_REMEDY', 'Switch it off.'),
        caution: message('FOREIGN', 'Other programs may take the room.')
      })
    );
    expect(seen).toContain('Cannot be parkedIt uses managed memory.');
    expect(seen).toContain('What would helpSwitch it off.');
    expect(seen).toContain('To knowOther programs may take the room.');
  });

  it('are about the kernel that was asked for', () => {
    /* Another notebook's facts under this one's name would mislead. */
    expect(details(parked(), 'another')).toContain('No notebook holds GPU memory');
  });
});

describe('the release form', () => {
  function form(row: Kernel, refusal: string): (ReleaseWish | null)[] {
    const wishes: (ReleaseWish | null)[] = [];
    render(
      <ReleaseForm
        snapshot={snapshot({ kernels: [row] })}
        kernelId={row.id}
        refusal={refusal}
        onChange={wish => wishes.push(wish)}
        trans={trans}
      />
    );
    return wishes;
  }

  it('proposes to park where that can be done', () => {
    /* The choice that costs nothing and gives back everything comes first. */
    expect(form(parkable(), '')).toEqual([{ level: 'park', kernel_id: 'kernel-1' }]);
  });

  it('says why parking was refused, and proposes the next best', () => {
    /* The refused way must not be the one that Enter takes again. */
    const wishes = form(parkable(), 'Cannot park: A thread is alive. End it.');
    expect(screen.getByTestId('gpushare-refusal').textContent).toBe(
      'Cannot park: A thread is alive. End it.'
    );
    expect(screen.getByTestId<HTMLInputElement>('gpushare-level-park').disabled).toBe(true);
    expect(wishes).toEqual([{ level: 'free_cache', kernel_id: 'kernel-1' }]);
  });
});
