import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import * as React from 'react';

import { ShareForm } from '../share_form';
import { lease, snapshot, trans } from './samples';

let written: string[];

beforeEach(() => {
  written = [];
});

afterEach(() => {
  cleanup();
});

function show(text: string, refusal = ''): void {
  render(
    <ShareForm
      snapshot={snapshot({ lease: lease() })}
      text={text}
      refusal={refusal}
      onChange={now => written.push(now)}
      trans={trans}
    />
  );
}

function slide(name: string, value: string): void {
  fireEvent.change(screen.getByTestId(`gpushare-share-${name}`), { target: { value } });
}

function write(value: string): void {
  fireEvent.change(screen.getByTestId('gpushare-share-text'), { target: { value } });
}

function words(testId: string): string {
  return screen.getByTestId(testId).textContent ?? '';
}

function slider(name: string): HTMLInputElement {
  return screen.getByTestId<HTMLInputElement>(`gpushare-share-${name}`);
}

function last(): string | undefined {
  return written[written.length - 1];
}

describe('the sliders', () => {
  it('write the share, and say it in GB to everybody', () => {
    /* Who does not know the grammar need not. */
    show('0.5..1');
    slide('request', '0.25');
    slide('limit', '0.8');
    expect(last()).toBe('0.25..0.8');
    expect(words('gpushare-share-means')).toContain('10.0 GB of the 40.0 GB');
    expect(slider('limit').getAttribute('aria-valuetext')).toBe('80 % of a GPU, 32.0 GB');
  });

  it('push each other rather than cross', () => {
    /* A limit below what is guaranteed is no share. */
    show('0.25..0.5');
    slide('request', '0.6');
    expect(last()).toBe('0.6');
    slide('limit', '0.4');
    expect(last()).toBe('0.4');
  });

  it('keep the number and the kind of GPUs', () => {
    /* One part changes, the rest stays. */
    show('2x0.25..0.8@a100');
    slide('request', '0.5');
    expect(last()).toBe('2x0.5..0.8@a100');
  });

  it('take memory for the part of a GPU that it is', () => {
    /* 16 GiB on a GPU of 40 GB is 43 % of it. */
    show('16GiB..24GiB');
    expect(slider('request').getAttribute('aria-valuetext')).toBe('43 % of a GPU, 17.2 GB');
    slide('request', '0.5');
    expect(last()).toBe('0.5..0.65');
  });
});

describe('the text', () => {
  it('moves the sliders', () => {
    /* Two ways to say one thing must agree. */
    show('0.5');
    write('0.2..0.4');
    expect([slider('request').value, slider('limit').value]).toEqual(['0.2', '0.4']);
  });

  it('is told what is wrong while it is written, and the sliders wait', () => {
    /* Nobody should have to press a button to hear of a typing error. */
    show('0.5');
    write('0.5..');
    const input = screen.getByTestId('gpushare-share-text');
    expect(input.getAttribute('aria-invalid')).toBe('true');
    expect(words('gpushare-share-means')).toContain('for example 0.5 or 16GiB');
    expect(slider('request').value).toBe('0.5');
  });

  it("stands under the broker's refusal", () => {
    /* Why it was refused is read before the next try. */
    show('0.8', 'No GPU has 0.8 free.');
    expect(screen.getByRole('alert').textContent).toBe('No GPU has 0.8 free.');
  });

  it('is named for those who do not see it', () => {
    /* Each control has a name and what describes it. */
    show('0.5');
    expect(screen.getByLabelText(/Or write it/).getAttribute('aria-describedby')).toBe(
      screen.getByTestId('gpushare-share-means').id
    );
    expect(screen.getByLabelText('Guaranteed')).toBe(slider('request'));
    expect(screen.getByLabelText('Up to')).toBe(slider('limit'));
  });
});
