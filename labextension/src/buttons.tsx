import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IPanelActions } from './actions';
import { ButtonName, buttonsFor } from './button_choice';
import { IGpuShareModel } from './model';
import { outlookInWords, outlookOf } from './outlook';
import { hasHeldCells, isHolder } from './parking_view';
import { IStateView } from './state';

interface IButtonsProps {
  model: IGpuShareModel;
  actions: IPanelActions;
  trans: TranslationBundle;
  state: IStateView;
}

interface IButton {
  name: ButtonName;
  label: string;
  title: string;
  press: (button: HTMLElement) => void;
  /** Why it does nothing now; empty where it works. */
  obstacle: string;
}

/** In these states the first button is what people most likely want. */
const INVITING = ['HOLDING', 'COUNTING_DOWN', 'PARKED'];

/** What opens at a press, where something does. */
const POPUPS: Partial<Record<ButtonName, 'menu' | 'dialog'>> = { keep: 'menu', request: 'dialog' };

/** What can I do: at most two buttons, the likely one first, and what Release would do. */
export function Buttons(props: IButtonsProps): React.JSX.Element | null {
  const { model, state } = props;
  const buttons = buttonsFor(model, state.code).map(name => buttonOf(name, props));
  if (buttons.length === 0) {
    return null;
  }
  return (
    <>
      <div className="jp-gpushare-Buttons">
        {buttons.map((button, place) => (
          <Button
            key={button.name}
            button={button}
            isPrimary={place === 0 && INVITING.includes(state.code) && button.obstacle === ''}
          />
        ))}
      </div>
      {buttons.some(({ name, obstacle }) => name === 'release' && obstacle === '') && (
        <OutlookLine {...props} />
      )}
    </>
  );
}

function Button({ button, isPrimary }: { button: IButton; isPrimary: boolean }): React.JSX.Element {
  const { name, label, title, press, obstacle } = button;
  return (
    <button
      className="jp-gpushare-Button"
      data-primary={isPrimary}
      aria-disabled={obstacle !== ''}
      aria-haspopup={POPUPS[name]}
      title={obstacle || title}
      data-testid={`gpushare-${name}`}
      onClick={event => {
        if (obstacle === '') {
          press(event.currentTarget);
        }
      }}
    >
      {label}
      {name === 'keep' && <Caret />}
    </button>
  );
}

function Caret(): React.JSX.Element {
  return (
    <svg className="jp-gpushare-Button-caret" viewBox="0 0 10 10" aria-hidden="true">
      <path d="M1.5 3.5 5 7l3.5-3.5" />
    </svg>
  );
}

/** The answer before anything is pressed. The state box has said it already where parking was refused a moment ago. */
function OutlookLine({ model, trans, state }: IButtonsProps): React.JSX.Element | null {
  const words = model.snapshot ? outlookInWords(outlookOf(model.snapshot), trans) : '';
  if (words === '' || state.code === 'CANNOT_PARK') {
    return null;
  }
  return (
    <p className="jp-gpushare-Outlook" data-testid="gpushare-outlook">
      {words}
    </p>
  );
}

function buttonOf(name: ButtonName, props: IButtonsProps): IButton {
  const { model, actions, trans } = props;
  const works = { name, obstacle: '' };
  switch (name) {
    case 'retry':
      return {
        ...works,
        label: trans.__('Try again'),
        title: '',
        press: () => {
          actions.retry();
        }
      };
    case 'release':
      return releaseButton(props);
    case 'resume':
      return {
        ...works,
        label: trans.__('Resume'),
        title: trans.__('Bring the GPU memory back now. Any cell that you run does the same.'),
        press: () => {
          actions.resume();
        }
      };
    case 'cancel':
      return {
        ...works,
        label: cancelLabel(model, trans),
        title: trans.__('The cells that wait are not run. Nothing is lost: what is parked stays parked.'),
        press: () => {
          actions.cancelCells();
        }
      };
    case 'keep':
      return {
        ...works,
        label: trans.__('Keep for…'),
        title: trans.__('Your GPU memory is not parked by itself for so long.'),
        press: button => {
          actions.openKeepMenu(button.getBoundingClientRect());
        }
      };
    case 'request':
      return {
        ...works,
        label: trans.__('Change share…'),
        title: trans.__('Ask for a smaller share: it may fit sooner.'),
        press: () => {
          actions.changeShare();
        }
      };
    case 'details':
      return {
        ...works,
        label: trans.__('Details'),
        title: trans.__('Since when, how big, and what it would take.'),
        press: () => {
          actions.showDetails();
        }
      };
  }
}

function cancelLabel({ snapshot }: IGpuShareModel, trans: TranslationBundle): string {
  const held = (snapshot?.kernels ?? [])
    .filter(hasHeldCells)
    .reduce((sum, { parking }) => sum + (parking?.held ?? 0), 0);
  return trans._n('Cancel cell', 'Cancel cells', held);
}

function releaseButton({ model, actions, trans, state }: IButtonsProps): IButton {
  const outlook = model.snapshot && outlookInWords(outlookOf(model.snapshot), trans);
  return {
    name: 'release',
    label: trans.__('Release'),
    title: outlook || trans.__('Give GPU memory back. You choose how, and see first what would be lost.'),
    press: () => {
      actions.release();
    },
    obstacle: whyNoRelease(model, state, trans)
  };
}

/** Why Release does nothing now, or nothing at all. */
function whyNoRelease(model: IGpuShareModel, state: IStateView, trans: TranslationBundle): string {
  if (model.contact !== 'live' || !model.snapshot) {
    return trans.__('There is no contact with the server.');
  }
  if (state.code === 'RELEASING') {
    return trans.__('A release is under way.');
  }
  if (state.code === 'ASKED') {
    return trans.__('It is parked as soon as its cell has ended.');
  }
  if (model.snapshot.memory.value === 0 || !model.snapshot.kernels.some(isHolder)) {
    return trans.__('No notebook holds GPU memory, so there is nothing to give back.');
  }
  return '';
}
