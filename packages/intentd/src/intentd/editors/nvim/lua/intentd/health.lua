-- `:checkhealth intentd`: what the plugin needs, and what runs here.
local health, M = vim.health, {}

-- The status of a command, and its lines; nil where it cannot be started or does not end.
local function run(...)
  local words = { ... }
  local _, ended = pcall(function() return vim.system(words, { text = true }):wait(10000) end)
  if type(ended) ~= 'table' then return nil, { tostring(ended) } end
  return ended.code, vim.split(vim.trim(ended.stdout .. ended.stderr), '\n')
end

local function check_editor()
  if vim.fn.has('nvim-0.11') == 0 then return health.error('Neovim is older than 0.11: the plugin does nothing') end
  if vim.lsp.inline_completion then return health.ok('this Neovim has inline completion') end
  health.warn('this Neovim has no inline completion; everything else works', { 'take 0.12 or newer' })
end

local function check_client()
  local count = #vim.lsp.get_clients({ name = 'intentd' })
  if count > 0 then return health.ok(('%d language server(s) of intentd run'):format(count)) end
  local advice = { 'open a file with a filetype; where one is open, :LspLog and `intentd lsp` in a terminal say more' }
  health.warn('no language server of intentd runs in this editor', advice)
end

local function check_daemon()
  local status, lines = run('intentd', 'status')
  if status ~= 0 then return health.warn(table.concat(lines, ' '), { 'the language server starts it: see above' }) end
  health.ok('intentd serves')
  for _, line in ipairs(lines) do health.info(line) end
end

function M.check()
  health.start('intentd')
  check_editor()
  local status, lines = run('intentd', '--version')
  if status ~= 0 then
    return health.error('`intentd` cannot be run: ' .. lines[1], { 'put it on the PATH that Neovim is started with' })
  end
  health.ok(lines[1])
  check_client()
  check_daemon()
end
return M
