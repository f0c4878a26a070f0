-- Enables the language server, and says which commands and events lead where.
if vim.fn.has('nvim-0.11') == 0 then return end
local function call(module, name) return function(given) require(module)[name](given) end end
local command, pieces = vim.api.nvim_create_user_command, function() return { 'line', 'word' } end
command('IntentExplain', call('intentd', 'explain'), { nargs = '?', bang = true })
command('IntentFix', call('intentd', 'fix'), {})
command('IntentStop', call('intentd', 'stop'), {})
command('IntentAccept', call('intentd.inline', 'accept'), { nargs = '?', complete = pieces })
local function on(events, module, name) vim.api.nvim_create_autocmd(events, { callback = call(module, name) }) end
on('LspAttach', 'intentd', 'attached')
on('DiagnosticChanged', 'intentd', 'diagnosed')
on({ 'BufEnter', 'CursorMoved', 'CursorMovedI', 'CursorHold', 'ModeChanged' }, 'intentd', 'moved')
on({ 'CursorMovedI', 'TextChangedI', 'TextChangedP', 'ModeChanged' }, 'intentd.inline', 'moved') -- also for <C-c>
vim.lsp.enable('intentd')
