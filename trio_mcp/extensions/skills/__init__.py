"""Skills: directories that tell a model how to do something, served and loaded (SEP-2640).

It needs PyYAML: `pip install 'trio-mcp[skills]'`.
"""

from trio_mcp.extensions.skills.client import LoadedSkill as LoadedSkill
from trio_mcp.extensions.skills.client import SkillsClient as SkillsClient
from trio_mcp.extensions.skills.entry import RemoteSkill as RemoteSkill
from trio_mcp.extensions.skills.entry import SkillFile as SkillFile
from trio_mcp.extensions.skills.server import Skills as Skills
from trio_mcp.extensions.skills.sources import DynamicSkill as DynamicSkill
from trio_mcp.extensions.skills.sources import Skill as Skill
